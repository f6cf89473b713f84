#include "engine/page_mover.h"

namespace cachalot {

PageMover::PageMover(CachePools& pools, Stream& stream, const std::array<int64_t, 2>& host_slots)
    : pools_(pools), stream_(stream) {
  for (const PagePart part : kPageParts) {
    const auto index = static_cast<size_t>(part);
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

std::byte* PageMover::At(PagePart part, HostSlot slot) const {
  const auto index = static_cast<size_t>(part);
  return memory_[index].get() + (slot.value - 1) * part_bytes_[index];
}

void PageMover::Carry(const ClearRequest& move) { pools_.ClearRequest(stream_, move.slot); }

void PageMover::Carry(const CopyEntries& move) { pools_.CopyEntryRows(stream_, move); }

void PageMover::Carry(const ToHost& move) {
  std::byte* to = At(move.part, move.to);
  for (const Tensor& rows : pools_.PartRows(move.part, move.from)) {
    stream_.Download(rows, to);
    to += rows.bytes();
    bytes_moved_ += rows.bytes();
  }
}

void PageMover::Carry(const FromHost& move) {
  const std::byte* from = At(move.part, move.from);
  for (const Tensor& rows : pools_.PartRows(move.part, move.to)) {
    stream_.Upload(from, rows);
    from += rows.bytes();
    bytes_moved_ += rows.bytes();
  }
}

}  // namespace cachalot
