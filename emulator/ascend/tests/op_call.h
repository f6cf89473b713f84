// Calls of operators as a program makes them: operands described on the host are copied to the device,
// both phases are called by name, results are copied back.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "acl.h"
#include "ascend_emulator.h"
#include "half.h"

namespace ascend_emulator {

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

inline size_t BytesOf(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_BOOL:
      return 1;
    case ACL_BF16:
    case ACL_FLOAT16:
      return 2;
    case ACL_INT64:
      return 8;
    default:
      return 4;
  }
}

template <typename T>
Array Raw(aclDataType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Array array{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

// Filled with what no operator may take for a result.
inline Array Out(aclDataType dtype, std::vector<int64_t> shape) {
  const auto bytes = static_cast<size_t>(CountOf(shape)) * BytesOf(dtype);
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
struct Number {  // an aclScalar
  double value;
};
struct List {  // an aclTensorList
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

// A device, a stream and the exported functions, each found by name when it is called.
class OpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ascend_emulator_reset();
    ascend_emulator_set_defaults();
    Do("aclInit", static_cast<const char*>(nullptr));
    Do("aclrtSetDevice", int32_t{0});
    Do("aclrtCreateStreamWithConfig", &stream_, uint32_t{0}, uint32_t{0});
  }
  void TearDown() override {
    Do("aclrtDestroyStream", stream_);
    ascend_emulator_reset();
  }

  void Set(const char* name, const char* value) {
    const char* why = ascend_emulator_set(name, value);
    ASSERT_EQ(why, nullptr) << why;
  }

  // Arrays that are not const get back what their tensors hold in the end.
  template <typename... Args>
  Outcome Call(const std::string& op, Args&&... args) {
    std::tuple<decltype(Converted(args))...> converted{Converted(args)...};
    Outcome outcome =
        std::apply([&](auto... values) { return CallConverted(op, values...); }, converted);
    for (Sent& sent : sent_) {
      if (sent.back != nullptr && outcome.size == 0 && !sent.back->bytes.empty()) {
        Do("aclrtMemcpy", static_cast<void*>(sent.back->bytes.data()), sent.back->bytes.size(),
           static_cast<const void*>(sent.device), sent.back->bytes.size(),
           int{ACL_MEMCPY_DEVICE_TO_HOST});
      }
      if (sent.device != nullptr) Do("aclrtFree", sent.device);
    }
    for (const auto& [destroy, handle] : handles_) Do(destroy, static_cast<const void*>(handle));
    sent_.clear();
    handles_.clear();
    return outcome;
  }

 private:
  struct Sent {
    Array* back;
    void* device;
  };

  static void* Symbol(const std::string& name) {
    static void* library = dlopen(ASCEND_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void* symbol = library == nullptr ? nullptr : dlsym(library, name.c_str());
    EXPECT_NE(symbol, nullptr) << name;
    return symbol;
  }

  template <typename... Args>
  static void Do(const char* name, Args... args) {
    using Function = int (*)(Args...);
    EXPECT_EQ(reinterpret_cast<Function>(Symbol(name))(args...), 0) << name;
  }

  static std::string LastMessage() {
    const char* message = reinterpret_cast<const char* (*)()>(Symbol("aclGetRecentErrMsg"))();
    return message == nullptr ? "" : message;
  }

  template <typename... Args>
  Outcome CallConverted(const std::string& op, Args... args) {
    using Size = int (*)(Args..., uint64_t*, void**);
    using Launch = int (*)(void*, uint64_t, void*, void*);
    Outcome outcome;
    const auto size = reinterpret_cast<Size>(Symbol(op + "GetWorkspaceSize"));
    const auto run = reinterpret_cast<Launch>(Symbol(op));
    if (size == nullptr || run == nullptr) return {-1, -1, -1, op + " is not exported"};
    uint64_t bytes = 0;
    void* executor = nullptr;
    outcome.size = size(args..., &bytes, &executor);
    if (outcome.size != 0) {
      outcome.message = LastMessage();
      return outcome;
    }
    void* workspace = nullptr;
    if (bytes > 0) Do("aclrtMalloc", &workspace, size_t{bytes}, int{0});
    outcome.run = run(workspace, bytes, executor, stream_);
    outcome.wait = reinterpret_cast<int (*)(void*)>(Symbol("aclrtSynchronizeStream"))(stream_);
    if (!outcome.ok()) outcome.message = LastMessage();
    if (workspace != nullptr) Do("aclrtFree", workspace);
    return outcome;
  }

  aclTensor* Tensor(const Array& array, Array* back) {
    void* device = nullptr;
    if (!array.bytes.empty()) {
      Do("aclrtMalloc", &device, array.bytes.size(), int{0});
      Do("aclrtMemcpy", device, array.bytes.size(), static_cast<const void*>(array.bytes.data()),
         array.bytes.size(), int{ACL_MEMCPY_HOST_TO_DEVICE});
    }
    sent_.push_back({back, device});
    std::vector<int64_t> strides = array.strides;
    if (strides.empty()) {
      strides.assign(array.shape.size(), 1);
      for (size_t axis = strides.size(); axis-- > 1;)
        strides[axis - 1] = strides[axis] * array.shape[axis];
    }
    std::vector<int64_t> storage = array.storage;
    if (storage.empty())
      storage = {static_cast<int64_t>(array.bytes.size() / BytesOf(array.dtype))};
    using Create = aclTensor* (*)(const int64_t*, uint64_t, int, const int64_t*, int64_t, int,
                                  const int64_t*, uint64_t, void*);
    return reinterpret_cast<Create>(Symbol("aclCreateTensor"))(
        array.shape.data(), array.shape.size(), array.dtype, strides.data(), array.offset,
        array.format, storage.data(), storage.size(), device);
  }

  aclTensor* Converted(Array& array) {
    aclTensor* tensor = Tensor(array, &array);
    handles_.emplace_back("aclDestroyTensor", tensor);
    return tensor;
  }
  aclTensor* Converted(const Array& array) {
    aclTensor* tensor = Tensor(array, nullptr);
    handles_.emplace_back("aclDestroyTensor", tensor);
    return tensor;
  }
  aclTensorList* Converted(const List& list) {
    std::vector<const aclTensor*> members;
    for (Array* member : list.members) members.push_back(Tensor(*member, member));
    using Create = aclTensorList* (*)(const aclTensor* const*, uint64_t);
    auto* made =
        reinterpret_cast<Create>(Symbol("aclCreateTensorList"))(members.data(), members.size());
    handles_.emplace_back("aclDestroyTensorList", made);
    return made;
  }
  aclIntArray* Converted(const Numbers& numbers) {
    using Create = aclIntArray* (*)(const int64_t*, uint64_t);
    auto* made = reinterpret_cast<Create>(Symbol("aclCreateIntArray"))(numbers.values.data(),
                                                                       numbers.values.size());
    handles_.emplace_back("aclDestroyIntArray", made);
    return made;
  }
  aclScalar* Converted(const Number& number) {
    double value = number.value;
    using Create = aclScalar* (*)(void*, int);
    auto* made = reinterpret_cast<Create>(Symbol("aclCreateScalar"))(&value, ACL_DOUBLE);
    handles_.emplace_back("aclDestroyScalar", made);
    return made;
  }
  static const void* Converted(std::nullptr_t) { return nullptr; }
  static const char* Converted(const char* text) { return text; }
  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  static T Converted(T value) {
    return value;
  }

  void* stream_ = nullptr;
  std::vector<Sent> sent_;
  std::vector<std::pair<const char*, void*>> handles_;
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

}  // namespace ascend_emulator
