// An NPU as the vendor's runtime has it: the device made current, its facts, its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/ascend/acl.h"
#include "backends/ascend/loader.h"
#include "base/result.h"
#include "device/buffer.h"

namespace cachalot::ascend {

enum class SocFamily { kA2, kA3 };  // Ascend910B, Ascend910_93

struct DeviceFacts {
  std::string soc;  // as the runtime names it, "Ascend910_9391"
  SocFamily family = SocFamily::kA3;
  int64_t cube_cores = 0;
  int64_t vector_cores = 0;
};

struct MemoryInfo {
  int64_t free = 0;   // bytes
  int64_t total = 0;  // bytes
};

class AclProcess;

// Shared by its streams and graphs. Any thread may call it.
class RuntimeDevice final : public BufferOwner, public std::enable_shared_from_this<RuntimeDevice> {
 public:
  // kNotFound where there is no such device, kUnsupported where it is of another family.
  static Result<std::shared_ptr<RuntimeDevice>> Open(std::shared_ptr<const Libraries> libraries,
                                                     int32_t ordinal);
  ~RuntimeDevice() override;

  const Libraries& libraries() const { return *libraries_; }
  const SymbolTable& symbols() const { return libraries_->symbols(); }
  const DeviceFacts& facts() const { return facts_; }
  Result<MemoryInfo> Memory() const;

  // Zeroed, aligned to 64 bytes, with 32 bytes behind it that kernels may read.
  // kResourceExhausted where there is not enough. Work that uses it must be over when it is freed.
  Result<Buffer> Allocate(int64_t bytes);

  // Makes the device current for the calling thread. Every call of the runtime needs it.
  void Bind() const;
  // What went wrong in `what`, with the runtime's own words for it, which this takes.
  Error Explain(std::string_view what, int code) const;

  // The same memory without zeros. 0 bytes are not asked for.
  Result<void*> AllocateRaw(int64_t bytes) const;
  void FreeRaw(void* data) const;

 private:
  RuntimeDevice() = default;
  Status Start(int32_t ordinal);
  Status Check(std::string_view what, int code) const;
  void Free(void* data, int64_t) override { FreeRaw(data); }

  std::shared_ptr<const Libraries> libraries_;
  std::shared_ptr<AclProcess> process_;
  int32_t ordinal_ = -1;  // before the device is taken
  uint64_t id_ = 0;       // of this object, never used again
  aclrtContext context_ = nullptr;
  DeviceFacts facts_;
  std::mutex setup_mutex_;
  aclrtStream setup_stream_ = nullptr;  // zeroes new memory
};

}  // namespace cachalot::ascend
