// Memory of the vendor's runtime with an owner: on the device for operators' own needs, pinned on the
// host for copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cachalot::ascend {

class RuntimeDevice;

// Of device memory: where pieces begin, and what kernels may read behind their end, as they read
// whole blocks.
inline constexpr int64_t kDeviceAlignment = 64;
inline constexpr int64_t kReadBehind = 32;

// The bytes that a piece of so many takes with what may be read behind it.
constexpr int64_t PaddedSize(int64_t bytes) {
  return (bytes + kReadBehind - 1) / kReadBehind * kReadBehind + kReadBehind;
}

// Device memory with undefined content. Freed at once when the last owner goes: work that uses it
// must be over.
class DeviceBlock {
 public:
  static Result<std::shared_ptr<DeviceBlock>> New(std::shared_ptr<RuntimeDevice> device,
                                                  int64_t bytes);
  ~DeviceBlock();
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  DeviceBlock(std::shared_ptr<RuntimeDevice> device, std::byte* data, int64_t bytes);

  std::shared_ptr<RuntimeDevice> device_;
  std::byte* data_;
  int64_t bytes_;
};

// Host memory that the device copies from and to by itself.
class PinnedBlock {
 public:
  static Result<std::unique_ptr<PinnedBlock>> New(std::shared_ptr<RuntimeDevice> device,
                                                  int64_t bytes);
  ~PinnedBlock();
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  PinnedBlock(std::shared_ptr<RuntimeDevice> device, std::byte* data, int64_t bytes);

  std::shared_ptr<RuntimeDevice> device_;
  std::byte* data_;
  int64_t bytes_;
};

// Memory that operators of one stream take in turn. It grows by a new block; the old one stays
// until the stream was waited for, or as long as a graph refers to it.
class StreamArena {
 public:
  explicit StreamArena(std::shared_ptr<RuntimeDevice> device) : device_(std::move(device)) {}

  // All that was taken may be taken again: the stream runs in order.
  void Rewind() { used_ = 0; }
  // Aligned to 64 bytes, with 32 bytes behind it that kernels may read. May not grow: null where
  // there is no room.
  Result<std::byte*> Take(int64_t bytes, bool may_grow);
  // Memory of earlier blocks goes: the stream is idle.
  void Release() { retired_.clear(); }

  const std::shared_ptr<DeviceBlock>& block() const { return block_; }
  int64_t growths() const { return growths_; }

 private:
  std::shared_ptr<RuntimeDevice> device_;
  std::shared_ptr<DeviceBlock> block_;
  std::vector<std::shared_ptr<DeviceBlock>> retired_;
  int64_t used_ = 0;
  int64_t growths_ = 0;
};

}  // namespace cachalot::ascend
