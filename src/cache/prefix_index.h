// PrefixIndex: which beginnings of prompts are in the cache, for requests to start from. Holds pages
// of a CacheAllocator as any request does, gives them back when they are wanted, and plans the
// copies to and from the host tier (docs/contracts/cache.md, I24 to I31). Metadata only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/cache_allocator.h"
#include "cache/cache_move.h"
#include "cache/prefix_tree.h"

namespace cachalot {

struct PrefixOptions {
  bool enabled = true;                         // false: nothing is inserted, nothing found
  std::array<int64_t, 2> host_slots = {0, 0};  // pages that the host tier has room for, by PagePart
};

struct PrefixStats {
  int64_t nodes = 0;
  int64_t device_pages = 0;  // history
  int64_t device_windows = 0;
  int64_t host_pages = 0;
  int64_t host_windows = 0;
  int64_t evictions = 0;  // parts that left the device
  int64_t from_host = 0;  // parts that came back
};

class PrefixIndex {
 public:
  // The allocator outlives the index.
  PrefixIndex(CacheAllocator& cache, const PrefixOptions& options);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Pages that Adopt would give for these tokens if the pools had room for what is in the host tier.
  int64_t Match(std::span<const int32_t> tokens) const;
  // Gives an empty request the longest prefix of `tokens` that can be resumed and leaves a token to
  // run (I25). Parts in the host tier are brought back, for which others may be evicted. Returns the
  // pages given.
  int64_t Adopt(RequestSlot slot, std::span<const int32_t> tokens, std::vector<CacheMove>& moves);
  // The request has run these tokens: their whole pages can be found from now on. `landmark`: the
  // last of them ends a prompt or an answer (I28).
  void Insert(RequestSlot slot, std::span<const int32_t> tokens, bool landmark);
  // Gives pages back until the pool has `pages` free ones. False where that cannot be had; what
  // could be evicted has been. With nothing pinned the index can give back every page that it alone
  // holds.
  bool Evict(CachePool pool, int64_t pages, std::vector<CacheMove>& moves);
  // Forgets everything, in all tiers.
  void Clear();

  // No more than these pages could be evicted.
  int64_t device_pages() const {
    return static_cast<int64_t>(tree_.order(CacheTier::kDevice, PagePart::kHistory).size());
  }
  PrefixStats stats() const;
  // Every part is held, listed and placed as it should be: checked, for tests.
  void CheckConsistency() const;

 private:
  using Path = std::vector<PrefixNode*>;

  PrefixTree::Page PageOf(std::span<const int32_t> tokens, int64_t page) const;
  Path Walk(std::span<const int32_t> tokens, bool with_host) const;
  int64_t Resumable(const Path& path, bool with_host) const;
  size_t FirstWindow(size_t num_pages) const;
  bool BringBack(std::span<PrefixNode* const> path, std::vector<CacheMove>& moves);
  bool BringBackWindow(PrefixNode& node, std::vector<CacheMove>& moves);
  PageId WindowOf(PageId full) const;
  bool BringBackGroup(std::span<PrefixNode* const> group, std::vector<CacheMove>& moves);
  bool Install(RequestSlot slot, std::span<PrefixNode* const> path, std::vector<CacheMove>& moves);
  std::optional<PageId> TakePage(CachePool pool, std::vector<CacheMove>& moves);
  PageSet ColumnOf(const PageSet& held, int64_t page) const;
  void ShareEntries(PrefixNode& node, PageId c128);
  void TakeOver(PrefixNode& node, const PageSet& pages);
  void MarkPathUsed(PrefixNode* node);
  void ListWindow(PrefixNode& node, CacheTier tier);
  void EvictParts(CachePool pool, int64_t pages, bool those_in_use, std::vector<CacheMove>& moves);
  bool InUse(const PrefixNode& node, PagePart part) const;
  void DropWindow(PrefixNode& node, std::vector<CacheMove>& moves);
  void DropHistory(PrefixNode& node, std::vector<CacheMove>& moves);
  void LetWindowGo(PrefixNode& node);
  void LetHistoryGo(PrefixNode& node);
  void DropLoneWindow(PrefixNode& node);
  void SaveToHost(PrefixNode& node, PagePart part, std::vector<CacheMove>& moves);
  std::optional<HostSlot> TakeHostSlot(PagePart part);
  void DropHost(PrefixNode& node, PagePart part);

  CacheAllocator& cache_;
  const PrefixOptions options_;
  PrefixTree tree_;
  std::array<std::vector<HostSlot>, 2> free_host_;
  int64_t evictions_ = 0;
  int64_t from_host_ = 0;
};

}  // namespace cachalot
