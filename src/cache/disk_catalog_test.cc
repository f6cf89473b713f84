#include "cache/disk_catalog.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

PageIdentity Page(int32_t token, const PageKey& parent = RootKey("model")) {
  PageIdentity page;
  page.parent = parent;
  page.tokens.fill(token);
  page.key = ChildKey(parent, page.tokens);
  return page;
}

constexpr PagePart kPart = PagePart::kWindow;

TEST(DiskCatalog, FillsTheLowestFreeSlabThenTheLeastLatelyUsed) {
  DiskCatalog catalog({1, 3});
  for (int32_t i = 0; i < 3; ++i) {
    const auto room = catalog.FindRoom(kPart);
    EXPECT_EQ(room.slab, i);
    EXPECT_FALSE(room.victim);
    EXPECT_TRUE(catalog.Put(Page(i), kPart, {room.slab, {}}));
  }
  EXPECT_EQ(catalog.FindRoom(kPart).victim, Page(0).key);
  catalog.Touch(Page(0).key);
  EXPECT_EQ(catalog.FindRoom(kPart).victim, Page(1).key);
  EXPECT_EQ(catalog.FindRoom(kPart).slab, 1);
  catalog.Remove(Page(0).key, kPart);
  catalog.Remove(Page(0).key, kPart);
  EXPECT_EQ(catalog.FindRoom(kPart).slab, 0);
  EXPECT_FALSE(catalog.FindRoom(kPart).victim);
  EXPECT_EQ(catalog.num_parts(), 2);
}

// As an index tells it of which a delete record is lost.
TEST(DiskCatalog, LetsTheLastPutOfAPartAndOfASlabCount) {
  DiskCatalog catalog({1, 4});
  EXPECT_TRUE(catalog.Put(Page(0), kPart, {0, {}}));
  EXPECT_TRUE(catalog.Put(Page(0), kPart, {3, {1}}));
  EXPECT_EQ(catalog.Find(Page(0).key, kPart), (DiskCatalog::Place{3, {1}}));
  EXPECT_EQ(catalog.num_parts(), 1);
  EXPECT_TRUE(catalog.Put(Page(1), kPart, {3, {2}}));
  EXPECT_FALSE(catalog.Find(Page(0).key, kPart));
  EXPECT_EQ(catalog.num_parts(), 1);
  for (const int64_t slab : {0, 1, 2}) {
    EXPECT_EQ(catalog.FindRoom(kPart).slab, slab);
    EXPECT_TRUE(catalog.Put(Page(10 + static_cast<int32_t>(slab)), kPart, {slab, {}}));
  }
  EXPECT_EQ(catalog.FindRoom(kPart).victim, Page(1).key);
}

TEST(DiskCatalog, RefusesSlabsThatThereAreNot) {
  DiskCatalog catalog({1, 4});
  EXPECT_TRUE(catalog.Put(Page(0), kPart, {0, {}}));
  EXPECT_FALSE(catalog.Put(Page(0), kPart, {4, {}}));
  EXPECT_FALSE(catalog.Put(Page(0), kPart, {-1, {}}));
  EXPECT_TRUE(catalog.Find(Page(0).key, kPart));
}

TEST(DiskCatalog, KeepsThePartsOfAPageApart) {
  DiskCatalog catalog({2, 2});
  const PageIdentity page = Page(0);
  const PageIdentity child = Page(1, page.key);
  EXPECT_TRUE(catalog.Put(child, PagePart::kHistory, {0, {}}));
  EXPECT_TRUE(catalog.Put(page, PagePart::kHistory, {1, {}}));
  EXPECT_TRUE(catalog.Put(page, PagePart::kWindow, {0, {}}));
  auto listed = catalog.ParentsFirst();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].page, page);
  EXPECT_TRUE(listed[0].history && listed[0].window);
  EXPECT_EQ(listed[1].page, child);
  EXPECT_FALSE(listed[1].window);
  catalog.Remove(page.key, PagePart::kHistory);
  EXPECT_TRUE(catalog.Find(page.key, PagePart::kWindow));
  catalog.Remove(page.key, PagePart::kWindow);
  listed = catalog.ParentsFirst();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].page, child);
}

}  // namespace
}  // namespace cachalot
