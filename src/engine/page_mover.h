// PageMover: carries out the moves of a plan, between the pools on the device, the host tier, whose
// memory it owns, and the disk tier.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cache/cache_move.h"
#include "cache/disk_tier.h"
#include "cache/pools.h"
#include "device/device.h"

namespace cachalot {

class PageMover {
 public:
  // host_slots: by PagePart. Pools and stream outlive the mover. disk: may be null.
  PageMover(CachePools& pools, Stream& stream, const std::array<int64_t, 2>& host_slots,
            DiskTier* disk);

  // Issues the moves on the stream, in order.
  void Carry(std::span<const CacheMove> moves);
  // The stream has been waited for since: what was downloaded for the disk tier can go there.
  void WriteToDisk();
  // It failed: what was downloaded may be anything.
  void DropDiskWrites() { disk_writes_.clear(); }
  // The memory of a host slot, for the disk tier to read into.
  std::span<std::byte> SlotMemory(PagePart part, HostSlot slot) const;
  // Bytes moved to and from the host tier so far.
  int64_t bytes_moved() const { return bytes_moved_; }

 private:
  void Carry(const ClearRequest& move);
  void Carry(const CopyEntries& move);
  void Carry(const ToHost& move);
  void Carry(const FromHost& move);
  void Carry(const ToDisk& move);
  void Carry(const UseOnDisk& move);

  struct DiskWrite {
    std::shared_ptr<const PageIdentity> page;
    PagePart part;
    std::shared_ptr<std::vector<std::byte>> bytes;
  };

  CachePools& pools_;
  Stream& stream_;
  DiskTier* disk_;
  std::array<int64_t, 2> part_bytes_;
  std::array<std::unique_ptr<std::byte[]>, 2> memory_;  // untouched until it is used
  std::vector<DiskWrite> disk_writes_;  // their bytes are on the way from the device
  int64_t bytes_moved_ = 0;
};

}  // namespace cachalot
