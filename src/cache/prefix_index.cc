#include "cache/prefix_index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

using enum CacheTier;
constexpr auto kHistory = PagePart::kHistory;
constexpr auto kWindow = PagePart::kWindow;

constexpr int64_t kLandmarkPages = 8;

HostSlot& HostSlotOf(PrefixNode& node, PagePart part) {
  return node.host[static_cast<size_t>(part)];
}

bool HasPart(const PrefixNode& node, PagePart part, CacheTier lowest) {
  return node.Has(kDevice, part) || (lowest >= kHost && node.Has(kHost, part)) ||
         (lowest >= kDisk && node.Has(kDisk, part));
}

// Nothing of a path is evicted while this lives.
class Pins {
 public:
  explicit Pins(std::span<PrefixNode* const> path) : path_(path) {
    for (PrefixNode* node : path_) {
      ++node->pins;
    }
  }
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  ~Pins() {
    for (PrefixNode* node : path_) {
      --node->pins;
    }
  }

 private:
  std::span<PrefixNode* const> path_;
};

}  // namespace

PrefixIndex::PrefixIndex(CacheAllocator& cache, const PrefixOptions& options)
    : cache_(cache), options_(options) {
  for (const PagePart part : kPageParts) {
    const auto index = static_cast<size_t>(part);
    for (int64_t slot = options.host_slots[index]; slot > 0; --slot) {
      free_host_[index].push_back(HostSlot(static_cast<int32_t>(slot)));
    }
  }
}

PrefixTree::Page PrefixIndex::PageOf(std::span<const int32_t> tokens, int64_t page) const {
  return tokens.subspan(static_cast<size_t>(page * kPageTokens)).first<kPageTokens>();
}

// The nodes of the tokens' pages, for as long as their history is there.
PrefixIndex::Path PrefixIndex::Walk(std::span<const int32_t> tokens, CacheTier lowest) const {
  Path path;
  const PrefixNode* parent = &tree_.root();
  const int64_t most = (static_cast<int64_t>(tokens.size()) - 1) / kPageTokens;
  for (int64_t page = 0; page < most; ++page) {
    PrefixNode* node = tree_.Find(*parent, PageOf(tokens, page));
    if (node == nullptr || !HasPart(*node, kHistory, lowest)) {
      break;
    }
    path.push_back(node);
    parent = node;
  }
  return path;
}

// The first page with positions that the token after num_pages pages sees.
size_t PrefixIndex::FirstWindow(size_t num_pages) const {
  const int64_t end = static_cast<int64_t>(num_pages) * kPageTokens;
  return static_cast<size_t>(std::max<int64_t>(0, end - cache_.geometry().window) / kPageTokens);
}

int64_t PrefixIndex::Resumable(const Path& path, CacheTier lowest) const {
  for (size_t num_pages = path.size(); num_pages > 0; --num_pages) {
    const auto windows = std::span(path).first(num_pages).subspan(FirstWindow(num_pages));
    if (std::ranges::all_of(
            windows, [&](const PrefixNode* node) { return HasPart(*node, kWindow, lowest); })) {
      return static_cast<int64_t>(num_pages);
    }
  }
  return 0;
}

int64_t PrefixIndex::Match(std::span<const int32_t> tokens) const {
  return tokens.empty() ? 0 : Resumable(Walk(tokens, kHost), kHost);
}

int64_t PrefixIndex::Adopt(RequestSlot slot, std::span<const int32_t> tokens,
                           std::vector<CacheMove>& moves) {
  if (tokens.empty()) {
    return 0;
  }
  for (const CacheTier lowest : {kHost, kDevice}) {
    Path path = Walk(tokens, lowest);
    path.resize(static_cast<size_t>(Resumable(path, lowest)));
    if (path.empty()) {
      continue;
    }
    bool adopted = false;
    {
      const Pins pins(path);
      adopted = BringBack(path, moves) && Install(slot, path, moves);
    }
    if (adopted) {
      for (size_t i = FirstWindow(path.size()); i < path.size(); ++i) {
        tree_.MarkUsed(*path[i], kDevice, kWindow);
      }
      MarkPathUsed(path.back());
      for (const PrefixNode* node : path) {
        if (node->HasOnDisk()) {
          moves.push_back(UseOnDisk{node->key});
        }
      }
      return static_cast<int64_t>(path.size());
    }
  }
  return 0;
}

// Everything that a resumption after `path` needs is on the device afterwards, or false.
bool PrefixIndex::BringBack(std::span<PrefixNode* const> path, std::vector<CacheMove>& moves) {
  const auto group_pages = static_cast<size_t>(cache_.geometry().c128_page_entries);
  for (size_t begin = 0; begin < path.size(); begin += group_pages) {
    const auto group = path.subspan(begin, std::min(group_pages, path.size() - begin));
    if (!BringBackGroup(group, moves)) {
      return false;
    }
  }
  for (PrefixNode* node : path.subspan(FirstWindow(path.size()))) {
    if (!node->Has(kDevice, kWindow) && !BringBackWindow(*node, moves)) {
      return false;
    }
  }
  return true;
}

bool PrefixIndex::BringBackWindow(PrefixNode& node, std::vector<CacheMove>& moves) {
  // A request that holds the full page may have its window still.
  if (const PageId held = WindowOf(node.device.full); held.value > 0) {
    cache_.Retain({.full = {}, .swa = {held}, .c128 = {}});
    node.device.swa = held;
  } else {
    const auto page = TakePage(CachePool::kSwa, moves);
    if (!page) {
      return false;
    }
    node.device.swa = *page;
    cache_.SetWindow(node.device.full, *page);
    moves.push_back(FromHost{kWindow, HostSlotOf(node, kWindow), node.device});
    ++from_host_;
  }
  tree_.MarkUsed(node, kDevice, kWindow);
  return true;
}

PageId PrefixIndex::WindowOf(PageId full) const {
  const SlotId first(static_cast<int32_t>(full.value * kPageTokens));
  return PageId(cache_.SwaSlot(first).value / static_cast<int32_t>(kPageTokens));
}

// The histories of nodes that share c128 pages. Those that come back get a new one, and with it the
// entries of all nodes before them in the group (I26).
bool PrefixIndex::BringBackGroup(std::span<PrefixNode* const> group,
                                 std::vector<CacheMove>& moves) {
  const auto lacks = [](const PrefixNode* node) { return !node->Has(kDevice, kHistory); };
  const auto last = std::find_if(group.rbegin(), group.rend(), lacks);
  if (last == group.rend()) {
    return true;
  }
  PageId entries;
  if (cache_.geometry().has_c128()) {
    const auto page = TakePage(CachePool::kC128, moves);
    if (!page) {
      return false;
    }
    entries = *page;
  }
  const PageSet of_entries = {.full = {}, .swa = {}, .c128 = {entries}};
  bool complete = true;
  for (PrefixNode* node : group.first(static_cast<size_t>(group.rend() - last))) {
    const int64_t row = (node->depth - 1) % cache_.geometry().c128_page_entries;
    if (!lacks(node)) {
      if (entries.value > 0) {
        moves.push_back(CopyEntries{node->device.c128, entries, row, 1});
      }
      continue;
    }
    const auto full = TakePage(CachePool::kFull, moves);
    if (!full) {
      complete = false;
      break;
    }
    node->device = {.full = *full, .swa = PageId(0), .c128 = entries, .c128_row = row};
    cache_.Retain(of_entries);
    moves.push_back(FromHost{kHistory, HostSlotOf(*node, kHistory), node->device});
    ++from_host_;
    tree_.MarkUsed(*node, kDevice, kHistory);
  }
  cache_.Release(of_entries);
  return complete;
}

bool PrefixIndex::Install(RequestSlot slot, std::span<PrefixNode* const> path,
                          std::vector<CacheMove>& moves) {
  const int64_t group_pages = cache_.geometry().c128_page_entries;
  PageSet prefix;
  for (size_t i = 0; i < path.size(); ++i) {
    prefix.full.push_back(path[i]->device.full);
    prefix.swa.push_back(i >= FirstWindow(path.size()) ? path[i]->device.swa : PageId(0));
    if (cache_.geometry().has_c128() && path[i]->depth % group_pages == 0) {
      prefix.c128.push_back(path[i]->device.c128);
    }
  }
  auto own = cache_.Adopt(slot, prefix);
  if (!own) {
    if (!Evict(own.error().pool, own.error().need, moves)) {
      return false;
    }
    own = cache_.Adopt(slot, prefix);
    CACHALOT_CHECK(own.has_value());
  }
  if (own->value > 0) {
    moves.push_back(
        CopyEntries{path.back()->device.c128, *own, 0, path.back()->depth % group_pages});
  }
  return true;
}

void PrefixIndex::Insert(RequestSlot slot, std::span<const int32_t> tokens, bool landmark) {
  if (!options_.enabled) {
    return;
  }
  const PageSet& held = cache_.pages(slot);
  const int64_t num_pages = static_cast<int64_t>(tokens.size()) / kPageTokens;
  PrefixNode* node = &tree_.root();
  for (int64_t page = 0; page < num_pages; ++page) {
    PrefixNode* child = tree_.FindOrAdd(*node, PageOf(tokens, page));
    if (child == nullptr) {
      break;
    }
    if (node != &tree_.root() && node->children.size() == 2) {
      MakeLandmark(*node);  // where prompts part
    }
    if ((landmark && page + 1 == num_pages) || child->depth % kLandmarkPages == 0) {
      MakeLandmark(*child);
    }
    const PageSet pages = ColumnOf(held, page);
    const bool has_window = pages.swa[0].value > 0;
    if (!child->Has(kDevice, kHistory) || (has_window && !child->Has(kDevice, kWindow))) {
      TakeOver(*child, pages);
    } else {
      ShareEntries(*child, pages.c128[0]);
    }
    node = child;
  }
  if (node != &tree_.root()) {
    MarkPathUsed(node);
  }
}

// The pages of one page of a request's tokens.
PageSet PrefixIndex::ColumnOf(const PageSet& held, int64_t page) const {
  const auto column = static_cast<size_t>(page);
  const auto group = static_cast<size_t>(page / cache_.geometry().c128_page_entries);
  return {.full = {held.full[column]},
          .swa = {held.swa[column]},
          .c128 = {cache_.geometry().has_c128() ? held.c128[group] : PageId(0)}};
}

// I27: the same entries, in the c128 page of a request that has gone further. A group that has
// grown request by request would have as many c128 pages otherwise.
void PrefixIndex::ShareEntries(PrefixNode& node, PageId c128) {
  if (node.device.c128 != c128) {
    cache_.Retain({.full = {}, .swa = {}, .c128 = {c128}});
    cache_.Release({.full = {}, .swa = {}, .c128 = {node.device.c128}});
    node.device.c128 = c128;
  }
}

// The node lets go of what it has on the device and holds these pages.
void PrefixIndex::TakeOver(PrefixNode& node, const PageSet& pages) {
  cache_.Retain(pages);
  if (node.Has(kDevice, kHistory)) {
    CACHALOT_CHECK(!node.Has(kDevice, kWindow));
    cache_.Release({{node.device.full}, {PageId(0)}, {node.device.c128}});
  }
  node.device = {.full = pages.full[0],
                 .swa = pages.swa[0],
                 .c128 = pages.c128[0],
                 .c128_row = (node.depth - 1) % cache_.geometry().c128_page_entries};
  tree_.MarkUsed(node, kDevice, kHistory);
  SaveToDisk(node, kHistory);
  if (node.Has(kDevice, kWindow)) {
    ListWindow(node, kDevice);
    if (node.landmark) {
      SaveToDisk(node, kWindow);
    }
  }
}

void PrefixIndex::MakeLandmark(PrefixNode& node) {
  if (!std::exchange(node.landmark, true) && node.Has(kDevice, kWindow)) {
    tree_.MarkUsed(node, kDevice, kWindow);
    SaveToDisk(node, kWindow);
  }
}

// I28: ancestors after the node.
void PrefixIndex::MarkPathUsed(PrefixNode* node) {
  if (node->landmark && node->Has(kDevice, kWindow)) {
    tree_.MarkUsed(*node, kDevice, kWindow);
  }
  for (; node != &tree_.root(); node = node->parent) {
    for (const CacheTier tier : {kDevice, kHost, kDisk}) {
      if (node->Has(tier, kHistory)) {
        tree_.MarkUsed(*node, tier, kHistory);
      }
    }
  }
}

void PrefixIndex::ListWindow(PrefixNode& node, CacheTier tier) {
  if (node.landmark) {
    tree_.MarkUsed(node, tier, kWindow);
  } else {
    tree_.MarkUnused(node, tier, kWindow);
  }
}

std::optional<PageId> PrefixIndex::TakePage(CachePool pool, std::vector<CacheMove>& moves) {
  if (!Evict(pool, 1, moves)) {
    return std::nullopt;
  }
  return cache_.Take(pool);
}

bool PrefixIndex::Evict(CachePool pool, int64_t pages, std::vector<CacheMove>& moves) {
  EvictParts(pool, pages, false, moves);
  if (pool == CachePool::kC128) {
    // The c128 page of a node may be the index's alone where its full page is in use.
    EvictParts(pool, pages, true, moves);
  }
  return cache_.available_pages(pool) >= pages;
}

// One pass over the parts whose pages the pool has, for as long as it has too few free ones.
void PrefixIndex::EvictParts(CachePool pool, int64_t pages, bool those_in_use,
                             std::vector<CacheMove>& moves) {
  const PagePart part = pool == CachePool::kSwa ? kWindow : kHistory;
  const PrefixTree::List& order = tree_.order(kDevice, part);
  for (auto next = order.begin(); next != order.end() && cache_.available_pages(pool) < pages;) {
    PrefixNode* node = *next++;
    if (node->pins > 0 || (InUse(*node, part) && !those_in_use)) {
      continue;
    }
    if (part == kWindow) {
      DropWindow(*node, moves);
    } else {
      DropHistory(*node, moves);
    }
    tree_.Prune(node);
  }
}

// Whether others hold the page too.
bool PrefixIndex::InUse(const PrefixNode& node, PagePart part) const {
  return part == kWindow ? cache_.allocator(CachePool::kSwa).holders(node.device.swa) > 1
                         : cache_.allocator(CachePool::kFull).holders(node.device.full) > 1;
}

void PrefixIndex::DropWindow(PrefixNode& node, std::vector<CacheMove>& moves) {
  SaveToHost(node, kWindow, moves);
  LetWindowGo(node);
  ++evictions_;
}

void PrefixIndex::DropHistory(PrefixNode& node, std::vector<CacheMove>& moves) {
  SaveToHost(node, kHistory, moves);
  if (node.Has(kDevice, kWindow)) {
    DropWindow(node, moves);
  }
  LetHistoryGo(node);
  ++evictions_;
}

void PrefixIndex::LetWindowGo(PrefixNode& node) {
  cache_.ReleaseWindow(node.device.full, node.device.swa);
  tree_.Unlist(node, kDevice, kWindow);
  node.device.swa = PageId(0);
}

void PrefixIndex::LetHistoryGo(PrefixNode& node) {
  cache_.Release({{node.device.full}, {PageId(0)}, {node.device.c128}});
  tree_.Unlist(node, kDevice, kHistory);
  node.device = PagePlace();
  DropLoneWindow(node);
}

// A window without its history is of no use.
void PrefixIndex::DropLoneWindow(PrefixNode& node) {
  if (!HasPart(node, kHistory, kDisk) && node.Has(kHost, kWindow)) {
    DropHost(node, kWindow);
  }
}

void PrefixIndex::SaveToHost(PrefixNode& node, PagePart part, std::vector<CacheMove>& moves) {
  if (node.Has(kHost, part)) {
    return;
  }
  if (const auto slot = TakeHostSlot(part)) {
    moves.push_back(ToHost{part, node.device, *slot});
    HostSlotOf(node, part) = *slot;
    if (part == kWindow) {
      ListWindow(node, kHost);
    } else {
      tree_.MarkUsed(node, kHost, kHistory);
    }
  }
}

std::optional<HostSlot> PrefixIndex::TakeHostSlot(PagePart part) {
  auto& free = free_host_[static_cast<size_t>(part)];
  if (free.empty()) {
    const auto& order = tree_.order(kHost, part);
    const auto victim =
        std::ranges::find_if(order, [](const PrefixNode* node) { return node->pins == 0; });
    if (victim == order.end()) {
      return std::nullopt;
    }
    PrefixNode* node = *victim;
    DropHost(*node, part);
    tree_.Prune(node);
  }
  const HostSlot slot = free.back();
  free.pop_back();
  return slot;
}

void PrefixIndex::DropHost(PrefixNode& node, PagePart part) {
  free_host_[static_cast<size_t>(part)].push_back(HostSlotOf(node, part));
  HostSlotOf(node, part) = HostSlot(0);
  tree_.Unlist(node, kHost, part);
  DropLoneWindow(node);
}

void PrefixIndex::Clear() {
  const auto clear = [&](CacheTier tier, PagePart part, const auto& drop) {
    while (!tree_.order(tier, part).empty()) {
      PrefixNode* node = tree_.order(tier, part).front();
      CACHALOT_CHECK_EQ(node->pins, 0);
      drop(*node);
      tree_.Prune(node);
    }
  };
  // Disk reads that are under way keep their host slots until they have ended.
  for (auto& [id, fetch] : fetching_) {
    if (fetch.node != nullptr) {
      --fetch.node->pins;
      fetch.node->fetching = {};
      fetch.node = nullptr;
    }
  }
  moves_.clear();
  for (const PagePart part : kPageParts) {
    clear(kDisk, part, [&](PrefixNode& node) { DropDisk(node, part); });
    clear(kHost, part, [&](PrefixNode& node) { DropHost(node, part); });
  }
  clear(kDevice, kWindow, [&](PrefixNode& node) { LetWindowGo(node); });
  clear(kDevice, kHistory, [&](PrefixNode& node) { LetHistoryGo(node); });
  CACHALOT_CHECK_EQ(tree_.size(), 0);
}

PrefixStats PrefixIndex::stats() const {
  const auto count = [&](CacheTier tier, PagePart part) {
    return static_cast<int64_t>(tree_.order(tier, part).size());
  };
  return {.nodes = tree_.size(),
          .device_pages = count(kDevice, kHistory),
          .device_windows = count(kDevice, kWindow),
          .host_pages = count(kHost, kHistory),
          .host_windows = count(kHost, kWindow),
          .disk_pages = count(kDisk, kHistory),
          .disk_windows = count(kDisk, kWindow),
          .evictions = evictions_,
          .from_host = from_host_,
          .from_disk = from_disk_};
}

void PrefixIndex::CheckConsistency() const {
  for (const PrefixNode* node : tree_.order(kDevice, kHistory)) {
    CACHALOT_CHECK_GE(cache_.allocator(CachePool::kFull).holders(node->device.full), 1);
    CACHALOT_CHECK_EQ(node->device.c128.value > 0, cache_.geometry().has_c128());
    const PageId swa = WindowOf(node->device.full);
    CACHALOT_CHECK(node->device.swa.value == 0 || node->device.swa == swa);
  }
  for (const PrefixNode* node : tree_.order(kDevice, kWindow)) {
    CACHALOT_CHECK(node->Has(kDevice, kHistory));
  }
  for (const PrefixNode* node : tree_.order(kHost, kWindow)) {
    CACHALOT_CHECK(HasPart(*node, kHistory, kDisk));
  }
  for (const PagePart part : kPageParts) {
    const auto index = static_cast<size_t>(part);
    const auto under_way = std::ranges::count_if(
        fetching_, [&](const auto& fetch) { return fetch.second.part == part; });
    CACHALOT_CHECK_EQ(
        static_cast<int64_t>(free_host_[index].size() + tree_.order(kHost, part).size()) +
            under_way,
        options_.host_slots[index]);
  }
}

}  // namespace cachalot
