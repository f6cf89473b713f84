#include "rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "half.h"

namespace ascend_emulator::standard {
namespace {

template <typename T>
T Clamped(float value) {
  const float rounded = std::nearbyint(value);
  if (!(rounded > static_cast<float>(std::numeric_limits<T>::min()))) {
    return std::numeric_limits<T>::min();
  }
  if (rounded >= static_cast<float>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(rounded);
}

// Calls `visit` with what reads one element and what writes it, so that each dtype gets a loop of its own.
template <typename T, typename FromFloat, typename ToFloat>
struct Codec {
  using Stored = T;
  FromFloat from_float;
  ToFloat to_float;
};
template <typename T, typename FromFloat, typename ToFloat>
Codec<T, FromFloat, ToFloat> MakeCodec(FromFloat from_float, ToFloat to_float) {
  return {from_float, to_float};
}

template <typename T>
auto IntegerCodec() {
  return MakeCodec<T>([](float value) { return Clamped<T>(value); },
                      [](T value) { return static_cast<float>(value); });
}

template <typename Visit>
void WithCodec(aclDataType dtype, Visit visit) {
  switch (dtype) {
    case ACL_FLOAT:
      return visit(
          MakeCodec<float>([](float value) { return value; }, [](float value) { return value; }));
    case ACL_DOUBLE:
      return visit(MakeCodec<double>([](float value) { return static_cast<double>(value); },
                                     [](double value) { return static_cast<float>(value); }));
    case ACL_BF16:
      return visit(MakeCodec<uint16_t>([](float value) { return ToBf16(value); },
                                       [](uint16_t bits) { return FromBf16(bits); }));
    case ACL_FLOAT16:
      return visit(MakeCodec<uint16_t>([](float value) { return ToFp16(value); },
                                       [](uint16_t bits) { return FromFp16(bits); }));
    case ACL_INT8:
      return visit(IntegerCodec<int8_t>());
    case ACL_UINT8:
      return visit(IntegerCodec<uint8_t>());
    case ACL_INT16:
      return visit(IntegerCodec<int16_t>());
    case ACL_UINT16:
      return visit(IntegerCodec<uint16_t>());
    case ACL_INT32:
      return visit(IntegerCodec<int32_t>());
    case ACL_UINT32:
      return visit(IntegerCodec<uint32_t>());
    case ACL_INT64:
      return visit(IntegerCodec<int64_t>());
    case ACL_UINT64:
      return visit(IntegerCodec<uint64_t>());
    case ACL_BOOL:
      return visit(MakeCodec<uint8_t>([](float value) { return uint8_t{value != 0.0F}; },
                                      [](uint8_t value) { return value != 0 ? 1.0F : 0.0F; }));
    default:
      return;  // phase 1 lets no other dtype through
  }
}

}  // namespace

Operand WithAxisLast(Operand operand, int64_t axis) {
  std::rotate(operand.shape.begin() + axis, operand.shape.begin() + axis + 1, operand.shape.end());
  std::rotate(operand.strides.begin() + axis, operand.strides.begin() + axis + 1,
              operand.strides.end());
  return operand;
}

Operand Transposed(Operand operand, int64_t a, int64_t b) {
  std::swap(operand.shape[a], operand.shape[b]);
  std::swap(operand.strides[a], operand.strides[b]);
  return operand;
}

Operand Slice(Operand operand, int64_t axis, int64_t begin, int64_t count) {
  operand.offset += begin * operand.strides[axis];
  operand.shape[axis] = count;
  return operand;
}

int64_t RowCount(const Operand& operand) {
  int64_t count = 1;
  for (size_t axis = 0; axis + 1 < operand.shape.size(); ++axis) {
    count *= operand.shape[axis];
  }
  return count;
}

int64_t RowWidth(const Operand& operand) {
  return operand.shape.empty() ? 1 : operand.shape.back();
}

Rows::Rows(Kernel& kernel, const Operand& operand)
    : dtype_(operand.dtype),
      size_(SizeOf(operand.dtype)),
      count_(RowCount(operand)),
      width_(RowWidth(operand)),
      stride_(operand.strides.empty() ? 1 : operand.strides.back()),
      shape_(operand.shape),
      strides_(operand.strides) {
  if (count_ * width_ > 0) {
    data_ = kernel.Data<uint8_t>(operand);
  }
}

uint8_t* Rows::RowData(int64_t row) const {
  int64_t offset = 0;
  for (auto axis = static_cast<int64_t>(shape_.size()) - 2; axis >= 0; --axis) {
    offset += row % shape_[axis] * strides_[axis];
    row /= shape_[axis];
  }
  return data_ + offset * size_;
}

void Rows::Read(int64_t row, float* values) const {
  if (width_ == 0) {
    return;
  }
  WithCodec(dtype_, [&](auto codec) {
    using T = typename decltype(codec)::Stored;
    const T* from = reinterpret_cast<const T*>(RowData(row));
    if (stride_ == 1) {
      for (int64_t i = 0; i < width_; ++i) {
        values[i] = codec.to_float(from[i]);
      }
    } else {
      for (int64_t i = 0; i < width_; ++i) {
        values[i] = codec.to_float(from[i * stride_]);
      }
    }
  });
}

std::vector<float> Rows::Read(int64_t row) const {
  std::vector<float> values(width_);
  Read(row, values.data());
  return values;
}

void Rows::Write(int64_t row, const float* values) const {
  if (width_ == 0) {
    return;
  }
  WithCodec(dtype_, [&](auto codec) {
    using T = typename decltype(codec)::Stored;
    T* to = reinterpret_cast<T*>(RowData(row));
    for (int64_t i = 0; i < width_; ++i) {
      to[i * stride_] = codec.from_float(values[i]);
    }
  });
}

void Rows::Copy(int64_t row, const Rows& from, int64_t from_row) const {
  if (width_ == 0) {
    return;
  }
  uint8_t* target = RowData(row);
  const uint8_t* source = from.RowData(from_row);
  if (stride_ == 1 && from.stride_ == 1) {
    std::memcpy(target, source, width_ * size_);
    return;
  }
  for (int64_t i = 0; i < width_; ++i) {
    std::memcpy(target + i * stride_ * size_, source + i * from.stride_ * size_, size_);
  }
}

void Rows::Poison(int64_t row) const {
  const bool real = dtype_ == ACL_FLOAT || dtype_ == ACL_FLOAT16 || dtype_ == ACL_BF16;
  for (int64_t i = 0; i < width_; ++i) {
    std::memset(RowData(row) + i * stride_ * size_, real ? 0xFF : 0x5A, size_);
  }
}

int64_t Axis(Call& call, const Operand& operand, int64_t axis) {
  const int64_t rank = operand.rank();
  call.Expect(axis >= -rank && axis < rank, kAclnnInvalid, "dim {} is outside [{}, {}) of {}", axis,
              -rank, rank, operand.name);
  return call.ok() ? (axis + rank) % rank : 0;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ",", shape[i]);
  }
  return text + "]";
}

void ShapeOr(Call& call, aclnnStatus code, const Operand& operand,
             const std::vector<int64_t>& shape) {
  call.Expect(operand.shape == shape, code, "{}: shape {} where {} is expected", operand.name,
              ShapeText(operand.shape), ShapeText(shape));
}

void NoTensors(Call& call, const char* name, const aclTensorList* list) {
  if (list != nullptr && call.ok()) {
    call.Expect(call.Inputs(name, list, kMovable).empty(), kAclnnInvalid,
                "{}: must be null, the operator has no use for it here", name);
  }
}

void FormatIs(Call& call, const Operand& operand, aclFormat format) {
  const bool same = (operand.format == ACL_FORMAT_FRACTAL_NZ) == (format == ACL_FORMAT_FRACTAL_NZ);
  call.Expect(same, kAclnnInvalid, "{}: format {} where {} is expected", operand.name,
              static_cast<int>(operand.format),
              format == ACL_FORMAT_FRACTAL_NZ ? "FRACTAL_NZ (29)" : "ND (2)");
}

}  // namespace ascend_emulator::standard
