#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cachalot {
namespace {

using Page = std::array<int32_t, kPageTokens>;

Page PageOf(int32_t token) {
  Page page;
  page.fill(token);
  return page;
}

TEST(PrefixTree, FindsAPageBehindItsParentOnly) {
  PrefixTree tree;
  PrefixNode* a = tree.FindOrAdd(tree.root(), PageOf(1));
  PrefixNode* b = tree.FindOrAdd(*a, PageOf(2));
  EXPECT_EQ(tree.FindOrAdd(tree.root(), PageOf(1)), a);
  EXPECT_EQ(tree.Find(*a, PageOf(2)), b);
  EXPECT_EQ(tree.Find(tree.root(), PageOf(2)), nullptr);
  EXPECT_EQ(b->depth, 2);
  EXPECT_EQ(tree.size(), 2);
}

// cache.I24: tokens decide, never the hash.
TEST(PrefixTree, TellsPagesApartThatHaveTheSameHash) {
  PrefixTree tree([](PrefixTree::Page) { return uint64_t{7}; });
  PrefixNode* a = tree.FindOrAdd(tree.root(), PageOf(1));
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(tree.Find(tree.root(), PageOf(2)), nullptr);
  EXPECT_EQ(tree.FindOrAdd(tree.root(), PageOf(2)), nullptr);
  EXPECT_EQ(tree.Find(tree.root(), PageOf(1)), a);
  Page last_differs = PageOf(1);
  last_differs.back() = 2;
  EXPECT_EQ(tree.Find(tree.root(), last_differs), nullptr);
  tree.Prune(a);
  EXPECT_NE(tree.FindOrAdd(tree.root(), PageOf(2)), nullptr);
  EXPECT_EQ(tree.size(), 1);
}

TEST(PrefixTree, PrunesWhatNobodyNeeds) {
  PrefixTree tree;
  PrefixNode* a = tree.FindOrAdd(tree.root(), PageOf(1));
  PrefixNode* b = tree.FindOrAdd(*a, PageOf(2));
  PrefixNode* c = tree.FindOrAdd(*b, PageOf(3));
  a->device.full = PageId(4);
  tree.Prune(b);  // has a child
  EXPECT_EQ(tree.size(), 3);
  ++c->pins;
  tree.Prune(c);
  EXPECT_EQ(tree.size(), 3);
  --c->pins;
  tree.Prune(c);  // and b with it, up to a, which has a page
  EXPECT_EQ(tree.size(), 1);
  a->device.full = PageId(0);
  a->host[0] = HostSlot(1);
  tree.Prune(a);
  EXPECT_EQ(tree.size(), 1);
  a->host[0] = HostSlot(0);
  tree.Prune(a);
  EXPECT_EQ(tree.size(), 0);
}

TEST(PrefixTree, ListsPartsInTheOrderOfTheirLastUse) {
  PrefixTree tree;
  PrefixNode* nodes[3];
  for (int32_t i = 0; i < 3; ++i) {
    nodes[i] = tree.FindOrAdd(tree.root(), PageOf(i));
    nodes[i]->device.full = PageId(i + 1);
    tree.MarkUsed(*nodes[i], CacheTier::kDevice, PagePart::kHistory);
  }
  const auto order = [&] {
    std::vector<int32_t> pages;
    for (const PrefixNode* node : tree.order(CacheTier::kDevice, PagePart::kHistory)) {
      pages.push_back(node->device.full.value);
    }
    return pages;
  };
  EXPECT_EQ(order(), (std::vector{1, 2, 3}));
  tree.MarkUsed(*nodes[0], CacheTier::kDevice, PagePart::kHistory);
  tree.MarkUnused(*nodes[2], CacheTier::kDevice, PagePart::kHistory);
  EXPECT_EQ(order(), (std::vector{3, 2, 1}));
  tree.Unlist(*nodes[1], CacheTier::kDevice, PagePart::kHistory);
  tree.Unlist(*nodes[1], CacheTier::kDevice, PagePart::kHistory);
  EXPECT_EQ(order(), (std::vector{3, 1}));
  EXPECT_TRUE(tree.order(CacheTier::kHost, PagePart::kHistory).empty());
  EXPECT_TRUE(tree.order(CacheTier::kDevice, PagePart::kWindow).empty());
}

}  // namespace
}  // namespace cachalot
