#include "tensor/tensor.h"

namespace cachalot {

int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBf16:
      return 2;
    case DType::kF8E4M3:
    case DType::kF8E8M0:
    case DType::kI8:
    case DType::kU8:
      return 1;
  }
  return 0;
}

const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBf16:
      return "BF16";
    case DType::kF8E4M3:
      return "F8_E4M3";
    case DType::kF8E8M0:
      return "F8_E8M0";
    case DType::kI8:
      return "I8";
    case DType::kU8:
      return "U8";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
  }
  return "?";
}

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  CACHALOT_CHECK_LE(dims.size(), dims_.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    dims_[i] = dims[i];
  }
}

int64_t Shape::num_elements() const {
  int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) {
    product *= (*this)[axis];
  }
  return product;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    text += (axis > 0 ? ", " : "") + std::to_string((*this)[axis]);
  }
  return text + "]";
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  CACHALOT_CHECK(shape.rank() > 0 && 0 <= begin && begin <= end && end <= shape[0],
                 "rows {} to {} of {}", begin, end, shape.ToString());
  std::array<int64_t, Shape::kMaxRank> dims = {};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    dims[static_cast<size_t>(axis)] = shape[axis];
  }
  dims[0] = end - begin;
  const int64_t row_bytes = shape[0] > 0 ? bytes() / shape[0] : 0;
  return Tensor{static_cast<uint8_t*>(data) + begin * row_bytes, dtype,
                Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape.rank())))};
}

Tensor Tensor::Reshaped(Shape other) const {
  CACHALOT_CHECK(other.num_elements() == num_elements(), "{} as {}", shape.ToString(),
                 other.ToString());
  return Tensor{data, dtype, other};
}

}  // namespace cachalot
