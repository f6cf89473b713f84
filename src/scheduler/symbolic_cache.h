// The caches as symbols, for tests: each row holds the name of the text that it was made from, so
// that a step which would read a wrong, stale or missing row is caught without a model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_allocator.h"
#include "cache/cache_move.h"
#include "cache/state_layout.h"
#include "scheduler/step_plan.h"

namespace cachalot {

class SymbolicCache {
 public:
  explicit SymbolicCache(const CacheGeometry& geometry);

  void Move(const CacheMove& move);
  // Reads a part from the disk into the host tier; false where it is not there.
  bool Fetch(const DiskFetch& fetch);
  // Loses a part that was written to the disk.
  void LoseFromDisk(const PageKey& key, PagePart part) { disk_.erase({key, part}); }
  // Runs an entry of a plan for a request that consists of `tokens` (those of the entry included),
  // with the pages that it has in `cache`. Returns what went wrong, or nothing.
  std::string Run(const CacheAllocator& cache, const PlannedRequest& entry,
                  std::span<const int32_t> tokens);

 private:
  using Symbol = uint64_t;

  std::vector<Symbol*> RowsOf(PagePart part, const PagePlace& place);

  const CacheGeometry geometry_;
  const StateLayout c4_layout_;  // of state
  const StateLayout c128_layout_;
  std::vector<Symbol> window_;    // by window slot
  std::vector<Symbol> c4_state_;  // by row, as the layouts have it
  std::vector<Symbol> c128_state_;
  std::vector<Symbol> c4_;                    // by c4 slot
  std::vector<Symbol> c128_;                  // by c128 slot
  std::map<RequestSlot, RequestId> tenants_;  // whose c128 state a slot has, until it is cleared
  std::array<std::map<HostSlot, std::vector<Symbol>>, 2> host_;
  std::map<std::pair<PageKey, PagePart>, std::vector<Symbol>> disk_;
};

// The name of a text: equal for equal tokens, and hardly ever for others.
std::vector<uint64_t> NamesOfPrefixes(std::span<const int32_t> tokens);

// The token after a text, in place of a model: from 0 to kVocabulary - 1.
inline constexpr int32_t kVocabulary = 1000;
int32_t NextToken(std::span<const int32_t> tokens);

}  // namespace cachalot
