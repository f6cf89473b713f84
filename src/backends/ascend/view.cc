#include "backends/ascend/view.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace cachalot::ascend {
namespace {

int64_t SizeOf(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
      return 4;
    case ACL_INT64:
      return 8;
  }
  return 0;
}

// Rank, dims and storage of a dense tensor; strides from the last axis up.
void SetDense(View& view, std::span<const int64_t> dims) {
  CACHALOT_CHECK_LE(dims.size(), static_cast<size_t>(View::kMaxRank));
  view.rank = static_cast<int>(dims.size());
  std::ranges::copy(dims, view.dims.begin());
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    view.strides[axis] = stride;
    stride *= dims[axis];
  }
  view.storage_rank = view.rank;
  view.storage = view.dims;
}

bool IsDense(const View& view) {
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<size_t>(axis);
    if (view.strides[i] != stride) {
      return false;
    }
    stride *= view.dims[i];
  }
  return view.offset == 0 && view.format == ACL_FORMAT_ND;
}

// One dimension that ends with the last element that the view reaches.
void SetFlatStorage(View& view) {
  int64_t extent = view.offset + 1;
  for (size_t axis = 0; axis < static_cast<size_t>(view.rank); ++axis) {
    extent += std::max<int64_t>(view.dims[axis] - 1, 0) * view.strides[axis];
  }
  view.storage_rank = 1;
  view.storage = {extent};
}

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

aclDataType AclTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ACL_FLOAT;
    case DType::kF16:
      return ACL_FLOAT16;
    case DType::kBf16:
      return ACL_BF16;
    case DType::kI8:
      return ACL_INT8;
    case DType::kU8:
      return ACL_UINT8;
    case DType::kI32:
      return ACL_INT32;
    case DType::kI64:
      return ACL_INT64;
    case DType::kF8E4M3:
    case DType::kF8E8M0:
      break;
  }
  CACHALOT_CHECK(false, "{} on a device that has none", NameOf(dtype));
}

View::View(const Tensor& tensor) {
  if (tensor.empty()) {
    return;
  }
  present = true;
  data = tensor.data;
  dtype = AclTypeOf(tensor.dtype);
  Dims shape_of_tensor = {};
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    shape_of_tensor[static_cast<size_t>(axis)] = tensor.shape[axis];
  }
  SetDense(*this, std::span(shape_of_tensor).first(static_cast<size_t>(tensor.shape.rank())));
}

View::View(void* address, aclDataType type, std::initializer_list<int64_t> shape_of_data)
    : present(true), data(address), dtype(type) {
  SetDense(*this, std::span(shape_of_data.begin(), shape_of_data.size()));
}

int64_t View::num_elements() const {
  return std::accumulate(dims.begin(), dims.begin() + rank, int64_t{1}, std::multiplies<>());
}

View View::Reshaped(std::initializer_list<int64_t> shape_of_result) const {
  CACHALOT_CHECK(IsDense(*this));
  View view = *this;
  SetDense(view, std::span(shape_of_result.begin(), shape_of_result.size()));
  CACHALOT_CHECK_EQ(view.num_elements(), num_elements());
  return view;
}

View View::WithStride(int axis, int64_t stride) const {
  View view = *this;
  view.strides[static_cast<size_t>(axis)] = stride;
  SetFlatStorage(view);
  return view;
}

View View::Transposed() const {
  CACHALOT_CHECK_GE(rank, 2);
  View view = *this;
  const auto last = static_cast<size_t>(rank - 1);
  std::swap(view.dims[last], view.dims[last - 1]);
  std::swap(view.strides[last], view.strides[last - 1]);
  return view;  // over the storage as it is
}

View View::Columns(int64_t begin, int64_t end) const {
  const auto last = static_cast<size_t>(rank - 1);
  CACHALOT_CHECK(0 <= begin && begin <= end && end <= dims[last]);
  View view = *this;
  view.offset += begin * strides[last];
  view.dims[last] = end - begin;
  return view;  // over the storage as it is
}

View View::Nz() const {
  CACHALOT_CHECK(rank >= 2 && IsDense(*this));
  View view = *this;
  view.format = ACL_FORMAT_FRACTAL_NZ;
  const auto last = static_cast<size_t>(rank - 1);
  const int64_t block_columns = kNzBytes / SizeOf(dtype);
  CACHALOT_CHECK_LE(rank + 2, kMaxRank);
  view.storage_rank = rank + 2;
  view.storage[last - 1] = RoundUp(dims[last], block_columns) / block_columns;
  view.storage[last] = RoundUp(dims[last - 1], kNzRows) / kNzRows;
  view.storage[last + 1] = kNzRows;
  view.storage[last + 2] = block_columns;
  return view;
}

View View::Empty(aclDataType type) { return {nullptr, type, {0}}; }

int64_t NzElements(aclDataType dtype, int64_t rows, int64_t cols) {
  return RoundUp(rows, kNzRows) * RoundUp(cols, kNzBytes / SizeOf(dtype));
}

}  // namespace cachalot::ascend
