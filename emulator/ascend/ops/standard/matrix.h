// Weights as the cube unit reads them, K x N in ND or FRACTAL_NZ storage, and products with them.
//
// FRACTAL_NZ cuts a row-major matrix [R, C] into tiles of 16 rows and C0 = 32 bytes of columns and
// stores [ceil(C/C0), ceil(R/16), 16, C0], padded with zeros. A transposed view (strides exchanged)
// of the matrix leaves its storage as it is.
//
// Sums: products of 64 consecutive k in order, then those sums in order; an INT8 product is exact. An
// output depends on its own row and column, never on how many others there are.
#pragma once

#include <cstdint>
#include <vector>

#include "op.h"

namespace ascend_emulator::standard {

// ceil(C/C0), ceil(R/16), 16, C0 for the last two axes of `shape`; those before stay.
std::vector<int64_t> NzStorage(const std::vector<int64_t>& shape, aclDataType dtype);
int64_t Product(const std::vector<int64_t>& shape);

// Where elements of the matrices in an operand's last two axes lie.
struct MatrixLayout {
  int64_t k = 0;
  int64_t n = 0;
  aclDataType dtype = ACL_DT_UNDEFINED;
  int64_t batch_stride = 0;  // elements between matrices of a 3-D operand
  // ND
  int64_t k_stride = 0;
  int64_t n_stride = 0;
  // NZ: tiles of [16, c0]; c runs along n, or along k where the stored matrix is [N, K].
  bool nz = false;
  bool c_is_k = false;
  int64_t c0 = 0;
  int64_t row_tiles = 0;

  int64_t Offset(int64_t k_index, int64_t n_index) const;
};

// [.., K, N], or [.., N, K] where `transposed` says so. NZ operands must be whole, their storage of
// the shape that the format has; both orders of strides are taken.
MatrixLayout LayoutOf(Call& call, const Operand& operand, bool transposed);

// x is [rows, k], `weight` the first element of one matrix. HF32 drops all but 10 bits of mantissas.
std::vector<float> Multiply(const std::vector<float>& x, int64_t rows, const MatrixLayout& layout,
                            const void* weight, bool hf32 = false);
std::vector<int32_t> Multiply(const std::vector<int8_t>& x, int64_t rows,
                              const MatrixLayout& layout, const void* weight);

}  // namespace ascend_emulator::standard
