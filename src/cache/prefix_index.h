// PrefixIndex: which beginnings of prompts are in the cache, for requests to start from. Holds pages
// of a CacheAllocator as any request does, gives them back when they are wanted, and plans the
// copies to and from the host tier (docs/contracts/cache.md, I24 to I31). Metadata only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cache/cache_allocator.h"
#include "cache/cache_move.h"
#include "cache/disk_catalog.h"
#include "cache/prefix_tree.h"

namespace cachalot {

struct PrefixOptions {
  bool enabled = true;  // false: nothing is inserted, nothing found
  // Pages that the host and the disk tier have room for, by PagePart. What is on disk gets to the
  // device through the host tier.
  std::array<int64_t, 2> host_slots = {0, 0};
  std::array<int64_t, 2> disk_slots = {0, 0};
  PageKey root;  // of the pages on disk
};

struct PrefixStats {
  int64_t nodes = 0;
  int64_t device_pages = 0;  // history
  int64_t device_windows = 0;
  int64_t host_pages = 0;
  int64_t host_windows = 0;
  int64_t disk_pages = 0;
  int64_t disk_windows = 0;
  int64_t evictions = 0;  // parts that left the device
  int64_t from_host = 0;  // parts that came back
  int64_t from_disk = 0;  // parts that came to the host tier
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

  // What the disk tier has from earlier runs, parents before children.
  void Restore(std::span<const StoredPage> pages);
  // Whether more of these tokens could be resumed if it were not on disk alone, and is on its way
  // now. With `begin` what is not yet is added to `fetches`, if the host tier has room for all of it.
  bool Fetch(std::span<const int32_t> tokens, bool begin, std::vector<DiskFetch>& fetches);
  // A fetch has come to its end. Not ok: the disk had it no more.
  void Fetched(int64_t id, bool ok);
  // Moves that inserting has brought about, to be carried out before any that are planned later.
  void TakeMoves(std::vector<CacheMove>& moves);
  bool has_moves() const { return !moves_.empty(); }

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
  // The functions of a tier see it and those above it.
  Path Walk(std::span<const int32_t> tokens, CacheTier lowest) const;
  int64_t Resumable(const Path& path, CacheTier lowest) const;
  size_t FirstWindow(size_t num_pages) const;
  bool BringBack(std::span<PrefixNode* const> path, std::vector<CacheMove>& moves);
  bool BringBackGroup(std::span<PrefixNode* const> group, std::vector<CacheMove>& moves);
  bool Install(RequestSlot slot, std::span<PrefixNode* const> path, std::vector<CacheMove>& moves);
  std::optional<PageId> TakePage(CachePool pool, std::vector<CacheMove>& moves);
  PageSet ColumnOf(const PageSet& held, int64_t page) const;
  void ShareEntries(PrefixNode& node, PageId c128);
  void TakeOver(PrefixNode& node, const PageSet& pages);
  void MarkPathUsed(PrefixNode* node);
  void ListWindow(PrefixNode& node, CacheTier tier);
  void MakeLandmark(PrefixNode& node);
  void SaveToDisk(PrefixNode& node, PagePart part);
  void ListOnDisk(PrefixNode& node, PagePart part);
  void DropDisk(PrefixNode& node, PagePart part);
  std::vector<std::pair<PrefixNode*, PagePart>> OnDiskAlone(
      std::span<PrefixNode* const> path) const;
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

  struct Fetching {
    PrefixNode* node = nullptr;  // null: forgotten meanwhile
    PagePart part = PagePart::kHistory;
    HostSlot to;
  };

  CacheAllocator& cache_;
  const PrefixOptions options_;
  PrefixTree tree_;
  std::array<std::vector<HostSlot>, 2> free_host_;
  std::map<int64_t, Fetching> fetching_;
  std::vector<CacheMove> moves_;  // for TakeMoves
  int64_t next_fetch_ = 1;
  int64_t evictions_ = 0;
  int64_t from_host_ = 0;
  int64_t from_disk_ = 0;
};

}  // namespace cachalot
