// PageMover: carries out the moves of a plan, between the pools on the device and the host tier,
// whose memory it owns.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "cache/cache_move.h"
#include "cache/pools.h"
#include "device/device.h"

namespace cachalot {

class PageMover {
 public:
  // host_slots: by PagePart. Pools and stream outlive the mover.
  PageMover(CachePools& pools, Stream& stream, const std::array<int64_t, 2>& host_slots);

  // Issues the moves on the stream, in order.
  void Carry(std::span<const CacheMove> moves);
  // Bytes moved to and from the host tier so far.
  int64_t bytes_moved() const { return bytes_moved_; }

 private:
  void Carry(const ClearRequest& move);
  void Carry(const CopyEntries& move);
  void Carry(const ToHost& move);
  void Carry(const FromHost& move);
  std::byte* At(PagePart part, HostSlot slot) const;

  CachePools& pools_;
  Stream& stream_;
  std::array<int64_t, 2> part_bytes_;
  std::array<std::unique_ptr<std::byte[]>, 2> memory_;  // untouched until it is used
  int64_t bytes_moved_ = 0;
};

}  // namespace cachalot
