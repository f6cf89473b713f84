#include "cache/prefix_tree.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"

namespace cachalot {

bool PrefixNode::Has(CacheTier tier, PagePart part) const {
  if (tier == CacheTier::kHost) {
    return host[IndexOf(part)].value > 0;
  }
  if (tier == CacheTier::kDisk) {
    return on_disk[IndexOf(part)];
  }
  return (part == PagePart::kHistory ? device.full : device.swa).value > 0;
}

bool PrefixNode::HasAnything() const {
  for (const PagePart part : kPageParts) {
    if (Has(CacheTier::kDevice, part) || Has(CacheTier::kHost, part) ||
        Has(CacheTier::kDisk, part)) {
      return true;
    }
  }
  return false;
}

uint64_t PrefixTree::HashOf(Page tokens) {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

PrefixNode* PrefixTree::Find(const PrefixNode& parent, Page tokens) const {
  const auto found = parent.children.find(hash_(tokens));
  if (found == parent.children.end() || !std::ranges::equal(found->second->tokens, tokens)) {
    return nullptr;
  }
  return found->second.get();
}

PrefixNode* PrefixTree::FindOrAdd(PrefixNode& parent, Page tokens) {
  std::unique_ptr<PrefixNode>& child = parent.children[hash_(tokens)];
  if (!child) {
    child = std::make_unique<PrefixNode>();
    child->parent = &parent;
    child->depth = parent.depth + 1;
    std::ranges::copy(tokens, child->tokens.begin());
    ++size_;
  }
  return std::ranges::equal(child->tokens, tokens) ? child.get() : nullptr;
}

void PrefixTree::Prune(PrefixNode* node) {
  while (node != &root_ && node->pins == 0 && node->children.empty() && !node->HasAnything()) {
    PrefixNode* parent = node->parent;
    parent->children.erase(hash_(node->tokens));
    --size_;
    node = parent;
  }
}

void PrefixTree::MarkUsed(PrefixNode& node, CacheTier tier, PagePart part) {
  ListBefore(lists_[IndexOf(tier, part)].end(), node, tier, part);
}

void PrefixTree::MarkUnused(PrefixNode& node, CacheTier tier, PagePart part) {
  Unlist(node, tier, part);  // it may be the first itself
  ListBefore(lists_[IndexOf(tier, part)].begin(), node, tier, part);
}

void PrefixTree::ListBefore(List::const_iterator next, PrefixNode& node, CacheTier tier,
                            PagePart part) {
  CACHALOT_CHECK(node.Has(tier, part));
  Unlist(node, tier, part);
  const size_t index = IndexOf(tier, part);
  node.place_in_[index] = lists_[index].insert(next, &node);
  node.is_in_[index] = true;
}

void PrefixTree::Unlist(PrefixNode& node, CacheTier tier, PagePart part) {
  const size_t index = IndexOf(tier, part);
  if (node.is_in_[index]) {
    lists_[index].erase(node.place_in_[index]);
    node.is_in_[index] = false;
  }
}

}  // namespace cachalot
