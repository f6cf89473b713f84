#include "cache/disk_plan.h"

#include <algorithm>

#include "base/check.h"
#include "cache/disk_format.h"

namespace cachalot {
namespace {

// The index may hold twice the records of what is alive while a new one with each of them once is
// written beside it.
constexpr int64_t kIndexBytesPerSlab = 3 * static_cast<int64_t>(sizeof(PutRecord));
// Headers of two slab files and of the old and the new index, and what one page adds to an index
// before its size is looked at.
constexpr int64_t kFixedBytes = 2 * kSlabsBegin + 2 * kRecordsBegin +
                                static_cast<int64_t>(sizeof(DeleteRecord) + sizeof(PutRecord));

int64_t BytesOfSlab(const DiskTierOptions& options, PagePart part) {
  const int64_t bytes = options.part_bytes[IndexOf(part)];
  CACHALOT_CHECK_GT(bytes, 0);
  return SlabBytes(bytes) + kIndexBytesPerSlab;
}

}  // namespace

Result<std::array<int64_t, 2>> PlanSlabs(const DiskTierOptions& options) {
  const int64_t history = BytesOfSlab(options, PagePart::kHistory);
  const int64_t window = BytesOfSlab(options, PagePart::kWindow);
  const int64_t bytes = options.max_bytes - kFixedBytes;
  if (bytes < history + window) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{}: {} bytes for the disk cache, expected at least {}, which hold one page",
                     options.folder, options.max_bytes, kFixedBytes + history + window);
  }
  const int64_t histories = std::clamp<int64_t>(bytes / 4 / history, 1, (bytes - window) / history);
  return std::array<int64_t, 2>{histories, (bytes - histories * history) / window};
}

}  // namespace cachalot
