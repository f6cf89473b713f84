// Tensor: a view of memory that somebody else owns (a Buffer, the Weights, a pool). Rows are
// contiguous, last axis fastest.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"
#include "numeric/formats.h"

namespace cachalot {

// The dtypes that checkpoints and operators use. kF8E8M0 and kF8E4M3 are one byte each; fp4 pairs
// travel as kI8.
enum class DType : uint8_t { kF32, kF16, kBf16, kF8E4M3, kF8E8M0, kI8, kU8, kI32, kI64 };

int64_t SizeOf(DType dtype);      // bytes of one element
const char* NameOf(DType dtype);  // as safetensors spells it

// Up to four dimensions; a default Shape is a scalar of one element.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t num_elements() const;
  bool operator==(const Shape& other) const = default;
  std::string ToString() const;  // "[3, 4]"

 private:
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

// The element type of a dtype, for Tensor::As.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType kValue = DType::kBf16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType kValue = DType::kI8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::kI64;
};

// Weights are views of read-only memory: writing through such a Tensor is a bug of the caller.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  bool empty() const { return data == nullptr; }
  int64_t num_elements() const { return shape.num_elements(); }
  int64_t bytes() const { return num_elements() * SizeOf(dtype); }
  // Bytes whatever the dtype, for packed and one-byte formats.
  const uint8_t* raw() const { return static_cast<const uint8_t*>(data); }

  template <typename T>
  T* As() const {
    CACHALOT_CHECK(dtype == DTypeOf<T>::kValue, "tensor is {}", NameOf(dtype));
    return static_cast<T*>(data);
  }
  // A view of rows [begin, end) of the first axis.
  Tensor Rows(int64_t begin, int64_t end) const;
  // The same elements under another shape.
  Tensor Reshaped(Shape other) const;
};

}  // namespace cachalot
