#include "engine/page_mover.h"

namespace cachalot {

PageMover::PageMover(CachePools& pools, Stream& stream, const std::array<int64_t, 2>& host_slots,
                     DiskTier* disk)
    : pools_(pools), stream_(stream), disk_(disk) {
  for (const PagePart part : kPageParts) {
    const size_t index = IndexOf(part);
    part_bytes_[index] = pools.part_bytes(part);
    memory_[index] = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<size_t>(host_slots[index] * part_bytes_[index]));
  }
}

void PageMover::Carry(std::span<const CacheMove> moves) {
  for (const CacheMove& move : moves) {
    std::visit([this](const auto& kind) { Carry(kind); }, move);
  }
}

std::span<std::byte> PageMover::SlotMemory(PagePart part, HostSlot slot) const {
  const int64_t bytes = part_bytes_[IndexOf(part)];
  return {memory_[IndexOf(part)].get() + (slot.value - 1) * bytes, static_cast<size_t>(bytes)};
}

void PageMover::Carry(const ClearRequest& move) { pools_.ClearRequest(stream_, move.slot); }

void PageMover::Carry(const CopyEntries& move) { pools_.CopyEntryRows(stream_, move); }

void PageMover::Carry(const ToHost& move) {
  std::byte* to = SlotMemory(move.part, move.to).data();
  for (const Tensor& rows : pools_.PartRows(move.part, move.from)) {
    stream_.Download(rows, to);
    to += rows.bytes();
    bytes_moved_ += rows.bytes();
  }
}

void PageMover::Carry(const FromHost& move) {
  const std::byte* from = SlotMemory(move.part, move.from).data();
  for (const Tensor& rows : pools_.PartRows(move.part, move.to)) {
    stream_.Upload(from, rows);
    from += rows.bytes();
    bytes_moved_ += rows.bytes();
  }
}

void PageMover::Carry(const ToDisk& move) {
  auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<size_t>(part_bytes_[IndexOf(move.part)]));
  std::byte* to = bytes->data();
  for (const Tensor& rows : pools_.PartRows(move.part, move.from)) {
    stream_.Download(rows, to);
    to += rows.bytes();
  }
  disk_writes_.push_back({move.page, move.part, std::move(bytes)});
}

void PageMover::Carry(const UseOnDisk& move) { disk_->Touch(move.key); }

void PageMover::WriteToDisk() {
  for (DiskWrite& write : disk_writes_) {
    disk_->Write(*write.page, write.part, std::move(write.bytes));
  }
  disk_writes_.clear();
}

}  // namespace cachalot
