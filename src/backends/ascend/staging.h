// Pinned memory between the host and a stream. No pageable memory reaches an asynchronous copy: the
// runtime would wait for all of the stream first, or read it when the caller has changed it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/ascend/device_memory.h"
#include "backends/ascend/runtime_device.h"
#include "base/result.h"

namespace cachalot::ascend {

// Slots that are filled in turn. An event behind the last copy from a slot says when it may be
// filled again.
class UploadRing {
 public:
  UploadRing(std::shared_ptr<RuntimeDevice> device, int64_t slots, int64_t slot_bytes);
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // The part of `bytes` that the current slot has room for, at least one byte: the caller fills it
  // and issues its copy on `stream` before the next call. May wait for earlier copies; a fault of
  // the stream can surface here.
  Result<std::span<std::byte>> Next(int64_t bytes, aclrtStream stream);
  // All copies are over: the stream is idle.
  void Release();

  int64_t waits() const { return waits_; }

 private:
  struct Slot {
    std::unique_ptr<PinnedBlock> memory;  // from its first use on
    aclrtEvent event = nullptr;
    bool in_flight = false;
  };

  Status Open(Slot& slot);

  std::shared_ptr<RuntimeDevice> device_;
  int64_t slot_bytes_;
  std::vector<Slot> slots_;
  size_t current_ = 0;
  int64_t used_ = 0;  // of the current slot
  int64_t waits_ = 0;
};

// Where downloads arrive, and where the host wants them.
class DownloadArea {
 public:
  DownloadArea(std::shared_ptr<RuntimeDevice> device, int64_t bytes);

  // Room for the first part of `bytes` that go to `host`; empty where there is none before the
  // stream was waited for.
  Result<std::span<std::byte>> Next(int64_t bytes, void* host);
  // The stream is idle: gives the host what arrived.
  void Deliver();
  // Nothing of it is wanted any more.
  void Drop();

 private:
  struct Arrival {
    std::span<const std::byte> staged;
    void* host;
  };

  std::shared_ptr<RuntimeDevice> device_;
  int64_t bytes_;
  std::unique_ptr<PinnedBlock> memory_;  // from the first use on
  int64_t used_ = 0;
  std::vector<Arrival> arrivals_;
};

}  // namespace cachalot::ascend
