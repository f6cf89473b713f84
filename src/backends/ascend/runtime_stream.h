// A stream of the vendor's runtime: copies through pinned memory, waits, capture and replay, and what
// operators need to be issued (op_call.h). The operators themselves are ops/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/ascend/device_memory.h"
#include "backends/ascend/runtime_device.h"
#include "backends/ascend/staging.h"
#include "base/result.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace cachalot::ascend {

struct StreamOptions {
  // Pinned memory for uploads is so many slots of so many bytes each, for downloads one of so many.
  int64_t upload_slots = 4;
  int64_t slot_bytes = 8 << 20;
  int64_t download_bytes = 8 << 20;
};

// What was issued since the stream was made.
struct StreamCounters {
  int64_t operators = 0;    // calls of the operator library
  int64_t uploads = 0;      // copies to the device
  int64_t downloads = 0;    // copies to the host
  int64_t early_waits = 0;  // for downloads that had no room beside the others
  int64_t device_copies = 0;
  int64_t waits = 0;
  int64_t replays = 0;
};

// Used by one thread at a time. A call that fails leaves its fault with the stream: operators are
// dropped until Synchronize has returned it, and then all goes on as ever.
class RuntimeStream {
 public:
  // Where the runtime has no stream left, every Synchronize says so.
  RuntimeStream(std::shared_ptr<RuntimeDevice> device, const StreamOptions& options);
  ~RuntimeStream();
  RuntimeStream(const RuntimeStream&) = delete;
  RuntimeStream& operator=(const RuntimeStream&) = delete;

  // As device.h says of a Stream.
  void Upload(const void* host, const Tensor& device);
  void Download(const Tensor& device, void* host);
  void Copy(const Tensor& src, const Tensor& dst);
  Status Synchronize();
  void BeginCapture();
  // Null where the capture failed: the next Synchronize says why.
  std::unique_ptr<Graph> EndCapture();
  void Replay(const Graph& graph);

  // For operators.
  const RuntimeDevice& device() const { return *device_; }
  const SymbolTable& symbols() const { return device_->symbols(); }
  Flavour flavour() const { return device_->libraries().flavour(); }
  aclrtStream handle() const { return handle_; }
  bool capturing() const { return capturing_; }
  bool faulted() const { return fault_.has_value(); }
  // Keeps the first fault.
  void Fail(Error error);
  // Memory of the operator that is being issued, gone with the next BeginOperator. Its content is
  // undefined; empty, and the stream faulted, where there is none.
  void BeginOperator() { scratch_.Rewind(); }
  Tensor Scratch(DType dtype, const Shape& shape);
  // For one call of the operator library; null as Scratch.
  void* Workspace(int64_t bytes);
  void CountOperator() { ++counters_.operators; }

  const StreamCounters& counters() const { return counters_; }
  // For a slot of the ring whose copies were not over.
  int64_t upload_waits() const { return uploads_.waits(); }

 private:
  bool Ok(const char* what, aclError code);
  std::byte* TakeFrom(StreamArena& arena, const char* what, int64_t bytes);
  // Waits for the downloads that are under way and hands them to the host.
  void FinishDownloads();

  std::shared_ptr<RuntimeDevice> device_;
  aclrtStream handle_ = nullptr;
  UploadRing uploads_;
  DownloadArea downloads_;
  StreamArena scratch_;
  StreamArena workspace_;
  std::optional<Error> fault_;
  std::optional<Error> no_stream_;  // why there is none
  bool capturing_ = false;
  bool recording_ = false;  // the runtime has begun the capture too
  StreamCounters counters_;
};

}  // namespace cachalot::ascend
