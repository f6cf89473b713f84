#include "backends/ascend/runtime_device.h"

#include <atomic>
#include <utility>

#include "backends/ascend/acl_process.h"
#include "backends/ascend/device_memory.h"
#include "backends/ascend/error_text.h"
#include "base/check.h"
#include "base/log.h"

namespace cachalot::ascend {
namespace {

std::atomic<uint64_t> next_id = 1;
thread_local uint64_t bound_id = 0;  // of the device that is current for this thread

Result<SocFamily> FamilyOf(const std::string& soc) {
  if (soc.starts_with("Ascend910B")) {
    return SocFamily::kA2;
  }
  if (soc.starts_with("Ascend910_93")) {
    return SocFamily::kA3;
  }
  return MakeError(StatusCode::kUnsupported,
                   "the NPU is a {}, expected an Atlas A2 (Ascend910B...) or A3 (Ascend910_93...)",
                   soc);
}

}  // namespace

Result<std::shared_ptr<RuntimeDevice>> RuntimeDevice::Open(
    std::shared_ptr<const Libraries> libraries, int32_t ordinal) {
  const auto device = std::shared_ptr<RuntimeDevice>(new RuntimeDevice);
  device->libraries_ = std::move(libraries);
  device->id_ = next_id++;
  CACHALOT_RETURN_IF_ERROR(device->Start(ordinal));
  return device;
}

Status RuntimeDevice::Start(int32_t ordinal) {
  const SymbolTable& acl = symbols();
  CACHALOT_ASSIGN_OR_RETURN(process_, AclProcess::Join(acl));
  uint32_t count = 0;
  CACHALOT_RETURN_IF_ERROR(Check("counting NPUs", acl.aclrtGetDeviceCount(&count)));
  if (ordinal < 0 || ordinal >= static_cast<int64_t>(count)) {
    return MakeError(StatusCode::kNotFound, "NPU {} asked for, this machine has {}", ordinal,
                     count);
  }
  CACHALOT_RETURN_IF_ERROR(Check("taking the NPU", acl.aclrtSetDevice(ordinal)));
  ordinal_ = ordinal;
  CACHALOT_RETURN_IF_ERROR(Check("the NPU's context", acl.aclrtGetCurrentContext(&context_)));
  bound_id = id_;

  const char* soc = acl.aclrtGetSocName();
  facts_.soc = soc == nullptr ? "(no name)" : soc;
  CACHALOT_ASSIGN_OR_RETURN(facts_.family, FamilyOf(facts_.soc));
  const auto id = static_cast<uint32_t>(ordinal);
  CACHALOT_RETURN_IF_ERROR(
      Check("counting cube cores",
            acl.aclGetDeviceCapability(id, ACL_DEVICE_INFO_AI_CORE_NUM, &facts_.cube_cores)));
  CACHALOT_RETURN_IF_ERROR(
      Check("counting vector cores",
            acl.aclGetDeviceCapability(id, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &facts_.vector_cores)));
  const Status status = Check("a stream", acl.aclrtCreateStreamWithConfig(&setup_stream_, 0, 0));
  if (!status) {
    setup_stream_ = nullptr;
  }
  return status;
}

RuntimeDevice::~RuntimeDevice() {
  if (ordinal_ < 0) {
    return;
  }
  if (context_ != nullptr) {
    Bind();
  }
  if (setup_stream_ != nullptr) {
    symbols().aclrtDestroyStream(setup_stream_);
  }
  symbols().aclrtResetDevice(ordinal_);
}

void RuntimeDevice::Bind() const {
  if (bound_id != id_) {
    symbols().aclrtSetCurrentContext(context_);
    bound_id = id_;
  }
}

Error RuntimeDevice::Explain(std::string_view what, int code) const {
  return ExplainCode(symbols(),
                     ordinal_ < 0 ? std::string(what) : fmt::format("NPU {}: {}", ordinal_, what),
                     code);
}

Status RuntimeDevice::Check(std::string_view what, int code) const {
  if (code == ACL_SUCCESS) {
    return {};
  }
  return tl::unexpected(Explain(what, code));
}

Result<MemoryInfo> RuntimeDevice::Memory() const {
  Bind();
  size_t free = 0;
  size_t total = 0;
  CACHALOT_RETURN_IF_ERROR(
      Check("asking for free memory", symbols().aclrtGetMemInfo(ACL_HBM_MEM, &free, &total)));
  return MemoryInfo{.free = static_cast<int64_t>(free), .total = static_cast<int64_t>(total)};
}

Result<void*> RuntimeDevice::AllocateRaw(int64_t bytes) const {
  Bind();
  void* data = nullptr;
  const aclError code = symbols().aclrtMalloc(&data, static_cast<size_t>(PaddedSize(bytes)),
                                              ACL_MEM_MALLOC_HUGE_FIRST);
  if (code != ACL_SUCCESS) {
    Error error = Explain(fmt::format("no memory for a buffer of {} bytes", bytes), code);
    if (const auto memory = Memory()) {
      error.message += fmt::format(" ({} of {} bytes free)", memory->free, memory->total);
    }
    return tl::unexpected(std::move(error));
  }
  CACHALOT_CHECK_EQ(reinterpret_cast<uintptr_t>(data) % kDeviceAlignment, 0U);
  return data;
}

void RuntimeDevice::FreeRaw(void* data) const {
  Bind();
  if (const aclError code = symbols().aclrtFree(data); code != ACL_SUCCESS) {
    spdlog::warn("{}", Explain("freeing memory", code).message);
  }
}

Result<Buffer> RuntimeDevice::Allocate(int64_t bytes) {
  if (bytes == 0) {
    return Buffer();
  }
  CACHALOT_ASSIGN_OR_RETURN(void* data, AllocateRaw(bytes));
  Buffer buffer(this, data, bytes);
  const auto size = static_cast<size_t>(PaddedSize(bytes));
  const std::lock_guard lock(setup_mutex_);
  CACHALOT_RETURN_IF_ERROR(
      Check("zeroing memory", symbols().aclrtMemsetAsync(data, size, 0, size, setup_stream_)));
  CACHALOT_RETURN_IF_ERROR(
      Check("zeroing memory", symbols().aclrtSynchronizeStream(setup_stream_)));
  return buffer;
}

}  // namespace cachalot::ascend
