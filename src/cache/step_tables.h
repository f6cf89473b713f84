// StepTables: the numbers that the operators of device/ops.h read about one step, as host vectors
// ready to be uploaded. Made from the allocator's tables alone, so that a step over tokens that
// have room already (verification of drafts) is built as any other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache_allocator.h"
#include "cache/ids.h"

namespace cachalot {

// Tokens [start_pos, start_pos + num_tokens) of a request; they have room in the cache.
struct StepRequest {
  RequestSlot slot;
  TokenPos start_pos;
  int64_t num_tokens = 0;
};

// Page ids [rows, columns], 0 where a request has no page.
struct PageTable {
  int64_t rows = 0;
  int64_t columns = 1;
  std::vector<int32_t> values;

  int32_t at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
};

struct StepTables {
  int64_t num_requests = 0;           // B
  int64_t num_tokens = 0;             // T
  std::vector<int32_t> query_starts;  // [B + 1]
  std::vector<int32_t> start_pos;     // [B]
  std::vector<int32_t> positions;     // [T]
  std::vector<int32_t> window_slots;  // [T]: rows of the window pools
  std::vector<int32_t> c4_slots;      // rows for the entries that the step closes, in request order
  std::vector<int32_t> c128_slots;
  PageTable window_pages;    // of kPageTokens rows
  PageTable c4_pages;        // of kC4PageEntries rows: entries and index keys
  PageTable c128_pages;      // of geometry.c128_page_entries rows
  PageTable c4_state_pages;  // as StateLayout says: of the window pages' rings or of paged state
  PageTable c128_state_pages;
};

// Every position that a token of the step sees in its window, or needs the state of, has a page:
// checked.
StepTables BuildStepTables(const CacheAllocator& cache, std::span<const StepRequest> requests);

}  // namespace cachalot
