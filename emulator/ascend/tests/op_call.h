// Calls of operators as a program makes them: operands described on the host are copied to the device,
// both phases are called by name, results are copied back.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "emulator_fixture.h"

namespace ascend_emulator::standard {

template <typename T>
concept Attribute = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// A tensor: what the program has of it, and how it describes it.
struct Array {
  aclDataType dtype = ACL_FLOAT;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  // the whole storage
  std::vector<int64_t> strides;  // empty: row-major
  std::vector<int64_t> storage;  // empty: one axis
  int64_t offset = 0;
  aclFormat format = ACL_FORMAT_ND;
};

inline int64_t CountOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

template <typename T>
Array Raw(aclDataType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Array array{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

// Filled with what no operator may take for a result.
inline Array Out(aclDataType dtype, std::vector<int64_t> shape) {
  const auto bytes = static_cast<size_t>(CountOf(shape)) * BytesPerElement(dtype);
  return {dtype, std::move(shape), std::vector<std::byte>(bytes, std::byte{0x77})};
}

inline Array Real(aclDataType dtype, std::vector<int64_t> shape, const std::vector<float>& values) {
  if (dtype == ACL_FLOAT) return Raw(dtype, std::move(shape), values);
  std::vector<uint16_t> bits;
  for (const float value : values)
    bits.push_back(dtype == ACL_BF16 ? ToBf16(value) : ToFp16(value));
  return Raw(dtype, std::move(shape), bits);
}

inline Array Ints(std::vector<int64_t> shape, const std::vector<int32_t>& values) {
  return Raw(ACL_INT32, std::move(shape), values);
}
inline Array Longs(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return Raw(ACL_INT64, std::move(shape), values);
}
inline Array Bytes(std::vector<int64_t> shape, const std::vector<int8_t>& values) {
  return Raw(ACL_INT8, std::move(shape), values);
}

template <typename T>
std::vector<T> As(const Array& array) {
  std::vector<T> values(array.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

// All elements of the storage as float.
inline std::vector<float> Floats(const Array& array) {
  if (array.dtype == ACL_FLOAT) return As<float>(array);
  std::vector<float> values;
  switch (array.dtype) {
    case ACL_INT8:
      for (const int8_t value : As<int8_t>(array)) values.push_back(value);
      break;
    case ACL_INT32:
      for (const int32_t value : As<int32_t>(array)) values.push_back(static_cast<float>(value));
      break;
    default:
      for (const uint16_t bits : As<uint16_t>(array)) {
        values.push_back(array.dtype == ACL_BF16 ? FromBf16(bits) : FromFp16(bits));
      }
  }
  return values;
}

// Random operands, as the device would hold them.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  std::vector<float> Values(int64_t count, float scale = 1) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(engine_);
    return values;
  }
  Array Normal(aclDataType dtype, std::vector<int64_t> shape, float scale = 1) {
    const std::vector<float> values = Values(CountOf(shape), scale);
    return Real(dtype, std::move(shape), values);
  }
  Array Int8(std::vector<int64_t> shape) {
    std::vector<int8_t> values(static_cast<size_t>(CountOf(shape)));
    for (int8_t& value : values) value = static_cast<int8_t>(Below(255) - 127);
    return Bytes(std::move(shape), values);
  }
  int64_t Below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(engine_); }

 private:
  std::mt19937 engine_;
};

struct Numbers {  // an aclIntArray
  std::vector<int64_t> values;
};
struct Scalar {  // an aclScalar
  float value;
};
struct Tensors {  // an aclTensorList
  std::vector<Array*> members;
};

// What the calls of a test came to.
struct Outcome {
  int size = 0;  // phase 1
  int run = 0;   // phase 2
  int wait = 0;  // the wait for the stream
  std::string message;
  bool ok() const { return size == 0 && run == 0 && wait == 0; }
};

inline std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.size << "/" << outcome.run << "/" << outcome.wait << " " << outcome.message;
}

class OpTest : public Emulator {
 protected:
  void Set(const char* name, const char* value) {
    const char* why = ascend_emulator_set(name, value);
    ASSERT_EQ(why, nullptr) << why;
  }

  // Arrays that are not const get back what their tensors hold in the end.
  template <typename... Args>
  Outcome Call(const std::string& op, Args&&... args) {
    back_.clear();
    std::tuple<decltype(Converted(args))...> converted{Converted(args)...};
    Outcome outcome;
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    outcome.size = std::apply(
        [&](auto... values) { return Prepare(op, &size, &executor, values...); }, converted);
    if (outcome.size == 0) {
      outcome.run = Launch(op, size > 0 ? Malloc(size) : nullptr, size, executor, stream());
      outcome.wait = Synchronize();
      for (const auto& [array, tensor] : back_) {
        if (!array->bytes.empty()) CopyBack(tensor.data, *array);
      }
    }
    if (!outcome.ok()) {
      outcome.message = Message();
      EXPECT_THAT(TakeReports(), ::testing::Not(::testing::IsEmpty()));
    }
    return outcome;
  }

 private:
  static void CopyBack(void* data, Array& array) {
    EXPECT_EQ(
        Acl("aclrtMemcpy", static_cast<void*>(array.bytes.data()), array.bytes.size(),
            static_cast<const void*>(data), array.bytes.size(), int{ACL_MEMCPY_DEVICE_TO_HOST}),
        0);
  }

  DeviceTensor Tensor(const Array& array) {
    DeviceTensor tensor;
    tensor.dtype = array.dtype;
    tensor.elements = static_cast<int64_t>(array.bytes.size() / BytesPerElement(array.dtype));
    if (!array.bytes.empty()) {
      tensor.data = Malloc(array.bytes.size());
      Write(tensor, array.bytes);
    }
    std::vector<int64_t> storage = array.storage;
    if (storage.empty()) storage = {tensor.elements};
    tensor.handle = Describe(tensor.data, array.dtype, array.shape, array.strides, array.offset,
                             storage, array.format);
    return tensor;
  }

  const aclTensor* Converted(Array& array) {
    back_.emplace_back(&array, Tensor(array));
    return back_.back().second.handle;
  }
  const aclTensor* Converted(const Array& array) { return Tensor(array).handle; }
  aclTensorList* Converted(const Tensors& tensors) {
    std::vector<DeviceTensor> members;
    for (Array* member : tensors.members) {
      members.push_back(Tensor(*member));
      back_.emplace_back(member, members.back());
    }
    return List(members);
  }
  aclIntArray* Converted(const Numbers& numbers) { return Integers(numbers.values); }
  aclScalar* Converted(const Scalar& scalar) { return Number(scalar.value); }
  static void* Converted(std::nullptr_t) { return nullptr; }
  static const char* Converted(const char* text) { return text; }
  template <Attribute T>
  static T Converted(T value) {
    return value;
  }

  std::vector<std::pair<Array*, DeviceTensor>> back_;
};

// Each element within `relative` of what it should be, or of the largest one where it is small.
inline void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected,
                       double relative) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], relative * std::abs(expected[i]) + 1e-5 * largest)
        << "element " << i;
  }
}

}  // namespace ascend_emulator::standard
