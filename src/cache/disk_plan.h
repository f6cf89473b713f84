// What a disk tier may take, and how its two slab files and its index share that.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "cache/page_key.h"
#include "cache/page_part.h"

namespace cachalot {

struct DiskTierOptions {
  std::string folder;                    // made if missing; may be shared by several models
  int64_t max_bytes = 0;                 // of all files of this model, the index included
  std::array<int64_t, 2> part_bytes{};   // of one page, by PagePart; above 0
  PageKey root;                          // of the model whose pages these are
  int64_t max_queued_bytes = 256 << 20;  // of pages that wait to be written
};

// Slabs of each file, by PagePart: a quarter of max_bytes goes to history and the rest to windows,
// with their share of the index, but each gets one slab at least. kInvalidArgument where two slabs
// are too much.
Result<std::array<int64_t, 2>> PlanSlabs(const DiskTierOptions& options);

}  // namespace cachalot
