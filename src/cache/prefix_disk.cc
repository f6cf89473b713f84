// The disk tier's side of PrefixIndex: what is kept there, and how it comes back.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "cache/prefix_index.h"

namespace cachalot {
namespace {

using enum CacheTier;

}  // namespace

void PrefixIndex::Restore(std::span<const StoredPage> pages) {
  std::unordered_map<PageKey, PrefixNode*> nodes = {{options_.root, &tree_.root()}};
  for (const StoredPage& stored : pages) {
    const auto parent = nodes.find(stored.page.parent);
    if (parent == nodes.end()) {
      continue;  // out of reach: a page above it has gone
    }
    const auto has_room = [&](PagePart part) {
      return static_cast<int64_t>(tree_.order(kDisk, part).size()) <
             options_.disk_slots[IndexOf(part)];
    };
    const std::array<bool, 2> takes = {stored.history && has_room(PagePart::kHistory),
                                       stored.window && has_room(PagePart::kWindow)};
    if (!takes[0] && !takes[1]) {
      continue;
    }
    PrefixNode* node = tree_.FindOrAdd(*parent->second, stored.page.tokens);
    if (node == nullptr || !nodes.emplace(stored.page.key, node).second) {
      continue;
    }
    node->key = stored.page.key;
    for (const PagePart part : kPageParts) {
      if (takes[IndexOf(part)]) {
        ListOnDisk(*node, part);
      }
    }
  }
}

void PrefixIndex::SaveToDisk(PrefixNode& node, PagePart part) {
  if (options_.disk_slots[IndexOf(part)] == 0 || node.Has(kDisk, part)) {
    return;
  }
  const bool first = node.parent == &tree_.root();
  auto page = std::make_shared<PageIdentity>();
  page->parent = first ? options_.root : node.parent->key;
  page->tokens = node.tokens;
  page->key = node.key = ChildKey(page->parent, page->tokens);
  moves_.push_back(ToDisk{part, node.device, std::move(page)});
  ListOnDisk(node, part);
}

// The tier forgets its least recently used part by itself; so does the index.
void PrefixIndex::ListOnDisk(PrefixNode& node, PagePart part) {
  node.on_disk[IndexOf(part)] = true;
  tree_.MarkUsed(node, kDisk, part);
  const auto& order = tree_.order(kDisk, part);
  if (static_cast<int64_t>(order.size()) > options_.disk_slots[IndexOf(part)]) {
    PrefixNode* oldest = order.front();
    DropDisk(*oldest, part);
    tree_.Prune(oldest);
  }
}

void PrefixIndex::DropDisk(PrefixNode& node, PagePart part) {
  node.on_disk[IndexOf(part)] = false;
  tree_.Unlist(node, kDisk, part);
  DropLoneWindow(node);
}

void PrefixIndex::TakeMoves(std::vector<CacheMove>& moves) {
  moves.insert(moves.end(), std::make_move_iterator(moves_.begin()),
               std::make_move_iterator(moves_.end()));
  moves_.clear();
}

// The parts that a resumption after `path` needs and that no faster tier has.
std::vector<std::pair<PrefixNode*, PagePart>> PrefixIndex::OnDiskAlone(
    std::span<PrefixNode* const> path) const {
  std::vector<std::pair<PrefixNode*, PagePart>> parts;
  const auto add = [&](std::span<PrefixNode* const> nodes, PagePart part) {
    for (PrefixNode* node : nodes) {
      if (!node->Has(kDevice, part) && !node->Has(kHost, part)) {
        parts.emplace_back(node, part);
      }
    }
  };
  add(path, PagePart::kHistory);
  add(path.subspan(FirstWindow(path.size())), PagePart::kWindow);
  return parts;
}

bool PrefixIndex::Fetch(std::span<const int32_t> tokens, std::vector<DiskFetch>& fetches) {
  if (tokens.empty() || options_.disk_slots[0] == 0) {
    return false;
  }
  Path path = Walk(tokens, kDisk);
  path.resize(static_cast<size_t>(Resumable(path, kDisk)));
  if (static_cast<int64_t>(path.size()) <= Match(tokens)) {
    return false;
  }
  const auto parts = OnDiskAlone(path);
  const auto is_fetching = [](const auto& part) {
    return part.first->fetching[IndexOf(part.second)];
  };
  if (std::ranges::any_of(parts, is_fetching)) {
    return true;
  }
  for (PrefixNode* node : path) {
    ++node->pins;  // its host parts stay
  }
  std::vector<Fetching> begun;
  for (const auto& [node, part] : parts) {
    if (const auto slot = TakeHostSlot(part)) {
      begun.push_back({node, part, *slot});
    }
  }
  const bool complete = begun.size() == parts.size();
  for (const Fetching& fetch : begun) {
    if (!complete) {
      free_host_[IndexOf(fetch.part)].push_back(fetch.to);
      continue;
    }
    ++fetch.node->pins;
    fetch.node->fetching[IndexOf(fetch.part)] = true;
    fetching_.emplace(next_fetch_, fetch);
    fetches.push_back({next_fetch_++, fetch.node->key, fetch.part, fetch.to});
  }
  for (PrefixNode* node : path) {
    --node->pins;
  }
  return complete;
}

bool PrefixIndex::IsFetching(std::span<const int32_t> tokens) const {
  return !tokens.empty() && std::ranges::any_of(Walk(tokens, kDisk), [](const PrefixNode* node) {
    return node->fetching[0] || node->fetching[1];
  });
}

void PrefixIndex::Fetched(int64_t id, bool ok) {
  const auto found = fetching_.find(id);
  CACHALOT_CHECK(found != fetching_.end(), "fetch {} is not under way", id);
  const Fetching fetch = found->second;
  fetching_.erase(found);
  if (fetch.node == nullptr) {
    free_host_[IndexOf(fetch.part)].push_back(fetch.to);
    return;
  }
  --fetch.node->pins;
  fetch.node->fetching[IndexOf(fetch.part)] = false;
  if (ok && !fetch.node->Has(kHost, fetch.part)) {
    fetch.node->host[IndexOf(fetch.part)] = fetch.to;
    tree_.MarkUsed(*fetch.node, kHost, fetch.part);
    ++from_disk_;
    DropLoneWindow(*fetch.node);
    tree_.Prune(fetch.node);
    return;
  }
  free_host_[IndexOf(fetch.part)].push_back(fetch.to);
  if (!ok && fetch.node->Has(kDisk, fetch.part)) {
    DropDisk(*fetch.node, fetch.part);
  }
  tree_.Prune(fetch.node);
}

}  // namespace cachalot
