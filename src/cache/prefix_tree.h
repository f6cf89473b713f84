// PrefixTree: what pages of tokens are known, as a tree, and in which order their parts were last
// used. It knows where a part lies and nothing of how it got there.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>

#include "cache/cache_move.h"
#include "cache/page_key.h"

namespace cachalot {

// Where a part can be.
enum class CacheTier : uint8_t { kDevice, kHost, kDisk };
inline constexpr size_t kCacheTiers = 3;

// One page of tokens behind all pages above it.
struct PrefixNode {
  PrefixNode* parent = nullptr;
  int64_t depth = 0;  // pages from the root, its own included
  std::array<int32_t, kPageTokens> tokens;
  std::unordered_map<uint64_t, std::unique_ptr<PrefixNode>> children;  // by a hash of their tokens
  PagePlace device;              // full and c128 are the history, swa the window
  std::array<HostSlot, 2> host;  // by PagePart
  std::array<bool, 2> on_disk = {};
  std::array<bool, 2> fetching = {};  // being read from disk
  PageKey key;            // of the root's children and below, where there is a disk tier
  int pins = 0;           // in use by somebody who plans: nothing is evicted
  bool landmark = false;  // its window is worth keeping (I28)

  bool Has(CacheTier tier, PagePart part) const;
  bool HasAnything() const;
  bool HasOnDisk() const { return on_disk[0] || on_disk[1]; }

 private:
  friend class PrefixTree;
  using List = std::list<PrefixNode*>;
  std::array<List::iterator, 2 * kCacheTiers> place_in_;
  std::array<bool, 2 * kCacheTiers> is_in_ = {};
};

class PrefixTree {
 public:
  using Page = std::span<const int32_t, kPageTokens>;
  using Hash = uint64_t (*)(Page);

  explicit PrefixTree(Hash hash = HashOf) : hash_(hash) {}

  PrefixNode& root() { return root_; }
  const PrefixNode& root() const { return root_; }
  // nullptr where there is none.
  PrefixNode* Find(const PrefixNode& parent, Page tokens) const;
  // nullptr where another child has the same hash.
  PrefixNode* FindOrAdd(PrefixNode& parent, Page tokens);
  // Takes away a node that has neither parts, nor children, nor pins, then its ancestors likewise.
  void Prune(PrefixNode* node);
  int64_t size() const { return size_; }

  // Parts in the order of their last use, the least recent first. A part that is there is listed.
  using List = std::list<PrefixNode*>;
  const List& order(CacheTier tier, PagePart part) const { return lists_[IndexOf(tier, part)]; }
  void MarkUsed(PrefixNode& node, CacheTier tier, PagePart part);
  // To be evicted first.
  void MarkUnused(PrefixNode& node, CacheTier tier, PagePart part);
  void Unlist(PrefixNode& node, CacheTier tier, PagePart part);

 private:
  void ListBefore(List::const_iterator next, PrefixNode& node, CacheTier tier, PagePart part);
  static size_t IndexOf(CacheTier tier, PagePart part) {
    return static_cast<size_t>(tier) * 2 + static_cast<size_t>(part);
  }

  static uint64_t HashOf(Page tokens);

  const Hash hash_;
  PrefixNode root_;
  std::array<List, 2 * kCacheTiers> lists_;
  int64_t size_ = 0;
};

}  // namespace cachalot
