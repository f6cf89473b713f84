// A device, a stream, and tensors made of host vectors: what tests of operators stand on. Goes through the
// library's exported functions as programs do, found by dlsym.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "acl.h"
#include "ascend_emulator.h"
#include "half.h"

namespace ascend_emulator {

inline void* EmulatorLibrary() {
  static void* const library = dlopen(ASCEND_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return library;
}

// Null where the flavour has not got the function. Looked up anew each time: flavours change.
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(EmulatorLibrary(), name));
}

// Calls an exported function whose parameters have the types of the arguments.
template <typename Result = aclError, typename... Args>
Result Acl(const char* name, Args... args) {
  auto* function = Find<Result(Args...)>(name);
  if (function == nullptr) {
    ADD_FAILURE() << name << " is not exported";
    return Result{};
  }
  return function(args...);
}

inline size_t BytesPerElement(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
      return 8;
    default:
      return 4;
  }
}

class Emulator : public ::testing::Test {
 public:
  // A tensor in device memory of its own. The fixture frees both at the end.
  struct DeviceTensor {
    aclTensor* handle = nullptr;
    void* data = nullptr;
    aclDataType dtype = ACL_FLOAT;
    int64_t elements = 0;  // of the storage
  };

 protected:
  // What differs from the defaults, name and value; before the device is set up.
  void Configure(std::vector<std::pair<const char*, std::string>> settings) {
    TearDownDevice();
    for (const auto& [name, value] : settings) {
      const char* why = ascend_emulator_set(name, value.c_str());
      ASSERT_EQ(why, nullptr) << why;
    }
    SetUpDevice();
  }

  void SetUp() override {
    ascend_emulator_set_defaults();
    ascend_emulator_set("print", "0");
    SetUpDevice();
  }

  // A test that expects reports takes them with TakeReports; any other is a failure.
  void TearDown() override {
    TearDownDevice();
    EXPECT_THAT(TakeReports(), ::testing::IsEmpty());
  }

  void SetUpDevice() {
    ascend_emulator_reset();
    ASSERT_EQ(Acl("aclInit", static_cast<const char*>(nullptr)), 0);
    ASSERT_EQ(Acl("aclrtSetDevice", int32_t{0}), 0);
    stream_ = NewStream();
  }

  void TearDownDevice() {
    if (stream_ == nullptr) return;
    Acl("aclrtSynchronizeDevice");
    for (aclTensor* tensor : tensors_)
      Acl("aclDestroyTensor", const_cast<const aclTensor*>(tensor));
    for (aclTensorList* list : lists_)
      Acl("aclDestroyTensorList", const_cast<const aclTensorList*>(list));
    for (aclIntArray* array : arrays_)
      Acl("aclDestroyIntArray", const_cast<const aclIntArray*>(array));
    for (aclScalar* scalar : scalars_)
      Acl("aclDestroyScalar", const_cast<const aclScalar*>(scalar));
    for (void* memory : device_) Acl("aclrtFree", memory);
    for (void* memory : pinned_) Acl("aclrtFreeHost", memory);
    for (void* event : events_) Acl("aclrtDestroyEvent", event);
    for (void* stream : streams_) Acl("aclrtDestroyStream", stream);
    tensors_.clear();
    lists_.clear();
    arrays_.clear();
    scalars_.clear();
    device_.clear();
    pinned_.clear();
    events_.clear();
    streams_.clear();
    stream_ = nullptr;
    Acl("aclrtResetDevice", int32_t{0});
    Acl("aclFinalize");
  }

  // --- things, all ended by the fixture ---

  aclrtStream NewStream() {
    aclrtStream stream = nullptr;
    EXPECT_EQ(Acl("aclrtCreateStreamWithConfig", &stream, uint32_t{0}, uint32_t{0}), 0);
    streams_.push_back(stream);
    return stream;
  }

  aclrtEvent NewEvent(uint32_t flags = 0x9) {  // SYNC and TIME_LINE
    aclrtEvent event = nullptr;
    EXPECT_EQ(Acl("aclrtCreateEventExWithFlag", &event, flags), 0);
    events_.push_back(event);
    return event;
  }

  void* Malloc(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(Acl("aclrtMalloc", &memory, bytes, 0), 0);
    device_.push_back(memory);
    return memory;
  }

  template <typename T>
  T* MallocHost(size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(Acl("aclrtMallocHost", &memory, count * sizeof(T)), 0);
    pinned_.push_back(memory);
    return static_cast<T*>(memory);
  }

  // Over memory that exists. No strides: contiguous. The storage is one axis, or as given.
  aclTensor* Describe(void* data, aclDataType dtype, const std::vector<int64_t>& shape,
                      const std::vector<int64_t>& strides = {}, int64_t offset = 0,
                      std::vector<int64_t> storage = {}, aclFormat format = ACL_FORMAT_ND) {
    std::vector<int64_t> steps = strides;
    if (steps.empty()) {
      steps.assign(shape.size(), 1);
      for (size_t axis = shape.size(); axis-- > 1;) steps[axis - 1] = steps[axis] * shape[axis];
    }
    if (storage.empty()) {
      int64_t last = offset + 1;
      for (size_t axis = 0; axis < shape.size(); ++axis) last += (shape[axis] - 1) * steps[axis];
      storage = {last};
    }
    auto* tensor = Acl<aclTensor*>("aclCreateTensor", shape.data(), uint64_t{shape.size()},
                                   int{dtype}, static_cast<const int64_t*>(steps.data()), offset,
                                   int{format}, static_cast<const int64_t*>(storage.data()),
                                   uint64_t{storage.size()}, data);
    tensors_.push_back(tensor);
    return tensor;
  }

  // Poisoned.
  DeviceTensor Empty(const std::vector<int64_t>& shape, aclDataType dtype,
                     const std::vector<int64_t>& strides = {}, aclFormat format = ACL_FORMAT_ND) {
    int64_t elements = 1;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (strides.empty()) {
        elements *= shape[axis];
      } else {
        elements += (shape[axis] - 1) * strides[axis];
      }
    }
    DeviceTensor tensor;
    tensor.dtype = dtype;
    tensor.elements = elements;
    tensor.data =
        Malloc(std::max<size_t>(1, static_cast<size_t>(elements)) * BytesPerElement(dtype));
    tensor.handle = Describe(tensor.data, dtype, shape, strides, 0, {elements}, format);
    return tensor;
  }

  // `values` are the storage's elements, in T as the device has them (uint16_t for BF16, say).
  template <typename T>
  DeviceTensor Upload(const std::vector<int64_t>& shape, aclDataType dtype,
                      const std::vector<T>& values, const std::vector<int64_t>& strides = {},
                      aclFormat format = ACL_FORMAT_ND) {
    DeviceTensor tensor = Empty(shape, dtype, strides, format);
    EXPECT_EQ(sizeof(T), BytesPerElement(dtype));
    EXPECT_EQ(static_cast<int64_t>(values.size()), tensor.elements);
    Write(tensor, values);
    return tensor;
  }

  // The same from floats, rounded to FLOAT, BF16 or FLOAT16.
  DeviceTensor UploadFloats(const std::vector<int64_t>& shape, aclDataType dtype,
                            const std::vector<float>& values,
                            const std::vector<int64_t>& strides = {},
                            aclFormat format = ACL_FORMAT_ND) {
    if (dtype == ACL_FLOAT) return Upload(shape, dtype, values, strides, format);
    std::vector<uint16_t> halves;
    for (const float value : values)
      halves.push_back(dtype == ACL_BF16 ? ToBf16(value) : ToFp16(value));
    return Upload(shape, dtype, halves, strides, format);
  }

  template <typename T>
  void Write(const DeviceTensor& tensor, const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    EXPECT_EQ(Acl("aclrtMemcpy", tensor.data, bytes, static_cast<const void*>(values.data()), bytes,
                  int{ACL_MEMCPY_HOST_TO_DEVICE}),
              0);
  }

  // The storage, as the device has it. Waits for nothing.
  template <typename T>
  std::vector<T> Download(const DeviceTensor& tensor) {
    EXPECT_EQ(sizeof(T), BytesPerElement(tensor.dtype));
    std::vector<T> values(static_cast<size_t>(tensor.elements));
    const size_t bytes = values.size() * sizeof(T);
    EXPECT_EQ(Acl("aclrtMemcpy", static_cast<void*>(values.data()), bytes,
                  static_cast<const void*>(tensor.data), bytes, int{ACL_MEMCPY_DEVICE_TO_HOST}),
              0);
    return values;
  }

  std::vector<float> DownloadFloats(const DeviceTensor& tensor) {
    if (tensor.dtype == ACL_FLOAT) return Download<float>(tensor);
    std::vector<float> values;
    for (const uint16_t half : Download<uint16_t>(tensor)) {
      values.push_back(tensor.dtype == ACL_BF16 ? FromBf16(half) : FromFp16(half));
    }
    return values;
  }

  aclIntArray* Integers(const std::vector<int64_t>& values) {
    auto* array = Acl<aclIntArray*>("aclCreateIntArray", values.data(), uint64_t{values.size()});
    arrays_.push_back(array);
    return array;
  }

  aclScalar* Number(float value) {
    auto* scalar = Acl<aclScalar*>("aclCreateScalar", static_cast<void*>(&value), int{ACL_FLOAT});
    scalars_.push_back(scalar);
    return scalar;
  }

  // Members become the list's.
  aclTensorList* List(const std::vector<DeviceTensor>& members) {
    std::vector<const aclTensor*> handles;
    for (const DeviceTensor& member : members) {
      handles.push_back(member.handle);
      std::erase(tensors_, member.handle);
    }
    auto* list = Acl<aclTensorList*>("aclCreateTensorList",
                                     static_cast<const aclTensor* const*>(handles.data()),
                                     uint64_t{handles.size()});
    lists_.push_back(list);
    return list;
  }

  // --- operators ---

  // First phase alone. Arguments have to have the types of the operator's parameters: int64_t, double,
  // bool, const char*, aclIntArray* ...; a DeviceTensor stands for its handle, nullptr for any pointer.
  template <typename... Args>
  aclnnStatus Prepare(const std::string& op, uint64_t* size, aclOpExecutor** executor,
                      Args... args) {
    return Acl<aclnnStatus>((op + "GetWorkspaceSize").c_str(), Plain(args)..., size, executor);
  }

  aclnnStatus Launch(const std::string& op, void* workspace, uint64_t size, aclOpExecutor* executor,
                     aclrtStream stream) {
    return Acl<aclnnStatus>(op.c_str(), workspace, size, executor, stream);
  }

  // Both phases, on a workspace that the fixture keeps to the end. Waits for nothing.
  template <typename... Args>
  aclnnStatus RunOn(aclrtStream stream, const std::string& op, Args... args) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus code = Prepare(op, &size, &executor, args...);
    if (code != 0) return code;
    void* workspace = size > 0 ? Malloc(size) : nullptr;
    return Launch(op, workspace, size, executor, stream);
  }

  // Both phases and the wait; the first code that is not 0.
  template <typename... Args>
  aclError Run(const std::string& op, Args... args) {
    const aclnnStatus code = RunOn(stream_, op, args...);
    return code != 0 ? code : Synchronize();
  }

  aclError Synchronize() { return Acl("aclrtSynchronizeStream", stream_); }

  // Of the calling thread; "" where there is none. Forgotten once read.
  static std::string Message() {
    const char* message = Acl<const char*>("aclGetRecentErrMsg");
    return message == nullptr ? "" : message;
  }

  static std::vector<std::string> TakeReports() {
    std::vector<std::string> reports;
    for (size_t i = 0; i < ascend_emulator_report_count(); ++i)
      reports.emplace_back(ascend_emulator_report(i));
    ascend_emulator_clear_reports();
    return reports;
  }

  // The call came to this code, with a message that has the text in it. Takes the reports.
  static void ExpectRefused(aclError code, aclError expected, const std::string& text) {
    EXPECT_EQ(code, expected);
    EXPECT_THAT(Message(), ::testing::HasSubstr(text));
    EXPECT_THAT(TakeReports(), ::testing::Contains(::testing::HasSubstr(text)));
  }

  // Something was reported that has the text in it. Takes the reports.
  static void ExpectReported(const std::string& text) {
    EXPECT_THAT(TakeReports(), ::testing::Contains(::testing::HasSubstr(text)));
  }

  aclrtStream stream() const { return stream_; }

 private:
  static const aclTensor* Plain(const DeviceTensor& tensor) { return tensor.handle; }
  static void* Plain(std::nullptr_t) { return nullptr; }
  template <typename T>
  static T Plain(T value) {
    return value;
  }

  aclrtStream stream_ = nullptr;
  std::vector<aclTensor*> tensors_;
  std::vector<aclTensorList*> lists_;
  std::vector<aclIntArray*> arrays_;
  std::vector<aclScalar*> scalars_;
  std::vector<void*> device_;
  std::vector<void*> pinned_;
  std::vector<void*> events_;
  std::vector<void*> streams_;
};

}  // namespace ascend_emulator
