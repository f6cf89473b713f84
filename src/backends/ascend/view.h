// View: a tensor as an operator of the vendor's library sees it, strides and storage form included.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "backends/ascend/acl.h"
#include "tensor/tensor.h"

namespace cachalot::ascend {

aclDataType AclTypeOf(DType dtype);  // of what the device's operators have; anything else is a bug

// Dense, last axis fastest, unless changed. Strides and offset are in elements.
struct View {
  static constexpr int kMaxRank = 6;
  using Dims = std::array<int64_t, kMaxRank>;

  View() = default;            // absent: a null pointer for the operator
  View(const Tensor& tensor);  // NOLINT: an operand may be either; an empty tensor is absent
  View(void* data, aclDataType dtype, std::initializer_list<int64_t> dims);

  bool absent() const { return !present; }
  std::span<const int64_t> shape() const { return {dims.data(), static_cast<size_t>(rank)}; }
  int64_t num_elements() const;

  // The same memory under another shape; this one must be dense.
  View Reshaped(std::initializer_list<int64_t> shape) const;
  // Steps of an axis, for rows with gaps between them.
  View WithStride(int axis, int64_t stride) const;
  // The last two axes the other way round, over the same memory.
  View Transposed() const;
  // Columns [begin, end) of the last axis.
  View Columns(int64_t begin, int64_t end) const;
  // The matrices of the last two axes stored in blocks of 16 rows by 32 bytes, one column of blocks
  // after the other. Memory for NzElements of them.
  View Nz() const;
  // Present without elements: what some operators want in place of null.
  static View Empty(aclDataType type);

  bool present = false;
  void* data = nullptr;
  aclDataType dtype = ACL_FLOAT;
  aclFormat format = ACL_FORMAT_ND;
  int rank = 0;
  Dims dims = {};
  Dims strides = {};
  int64_t offset = 0;
  int storage_rank = 0;
  Dims storage = {};
};

// Elements of [rows, cols] in blocks, padding included.
int64_t NzElements(aclDataType dtype, int64_t rows, int64_t cols);

}  // namespace cachalot::ascend
