// Matrix: a weight [rows, cols] as its checkpoint stores it, and what the stored bytes mean.
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace cachalot {

// values and scales per format, r rows and c columns:
//   kF32          F32 [r, c]
//   kBf16         BF16 [r, c]
//   kFp8Block     F8_E4M3 [r, c]; F8_E8M0 [ceil(r/128), ceil(c/128)]: a scale for 128 x 128 values
//   kFp4Block     I8 [r, c/2], e2m1 pairs, even column in the low nibble; F8_E8M0 [r, c/32]
//   kInt8Channel  I8 [r, c]; F32 [r]: a scale for each row
enum class MatrixFormat : uint8_t { kF32, kBf16, kFp8Block, kFp4Block, kInt8Channel };

inline constexpr int64_t kFp8BlockSize = 128;
inline constexpr int64_t kFp4BlockSize = 32;

struct Matrix {
  MatrixFormat format = MatrixFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  Tensor values;
  Tensor scales;  // empty for kF32 and kBf16

  bool empty() const { return values.empty(); }
  int64_t bytes() const { return values.bytes() + (scales.empty() ? 0 : scales.bytes()); }
};

// One expert's three products: y = w2 (silu(w1 x) * (w3 x)). I is the expert's inner size, d the
// hidden size.
struct ExpertWeights {
  Matrix w1;  // gate [I, d]
  Matrix w2;  // down [d, I]
  Matrix w3;  // up [I, d]
};

const char* NameOf(MatrixFormat format);

// Element (row, col) as a float: the definition of the formats, for references and tests.
float ElementOf(const Matrix& matrix, int64_t row, int64_t col);

// A whole row of elements, sooner. `values` holds matrix.cols.
void ReadRow(const Matrix& matrix, int64_t row, std::span<float> values);

}  // namespace cachalot
