// Pages with several holders: a prefix that outlives its request and is taken over by others.
#include <gtest/gtest.h>

#include "cache/cache_allocator.h"
#include "cache/page_thief.h"
#include "cache/step_tables.h"

namespace cachalot {
namespace {

CacheGeometry Geometry() {
  return {.max_requests = 4,
          .full_pages = 100,
          .swa_pages = 100,
          .c128_pages = 12,
          .c128_page_entries = 16,
          .has_c4 = true,
          .window = 128};
}

void Grow(CacheAllocator& cache, RequestSlot slot, int64_t num_tokens) {
  const Growth growth{slot, num_tokens, TokenPos(0)};
  ASSERT_TRUE(cache.Extend({&growth, 1}));
}

// The first `num_pages` pages of a request, with the whole c128 pages.
PageSet PrefixOf(const CacheAllocator& cache, RequestSlot slot, int64_t num_pages) {
  PageSet prefix = cache.pages(slot);
  prefix.full.resize(static_cast<size_t>(num_pages));
  prefix.swa.resize(static_cast<size_t>(num_pages));
  prefix.c128.resize(static_cast<size_t>(num_pages / cache.geometry().c128_page_entries));
  return prefix;
}

TEST(CacheSharing, KeepsAPrefixForAsLongAsSomebodyHoldsIt) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  Grow(cache, a, 5 * 2048 + 300);
  const PageSet prefix = PrefixOf(cache, a, 80);
  cache.Retain(prefix);
  cache.Free(a);
  EXPECT_EQ(cache.available_pages(CachePool::kFull), 20);
  EXPECT_EQ(cache.available_pages(CachePool::kC128), 7);
  // The rows of the whole prefix are still where they were.
  for (size_t i = 0; i < prefix.full.size(); ++i) {
    EXPECT_EQ(cache.SwaSlot(SlotId(static_cast<int32_t>(prefix.full[i].value * kPageTokens))).value,
              prefix.swa[i].value * kPageTokens);
  }
  const RequestSlot b = *cache.TakeRequest();
  EXPECT_EQ(cache.Adopt(b, prefix).value(), PageId(0));
  EXPECT_EQ(cache.length(b), 80 * kPageTokens);
  cache.Release(prefix);
  EXPECT_EQ(cache.available_pages(CachePool::kC128), 7);
  cache.Free(b);
  EXPECT_EQ(cache.LeakReport(), "");
}

TEST(CacheSharing, GivesRequestsThatDivergeRowsOfTheirOwn) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  Grow(cache, a, 20 * kPageTokens);
  const RequestSlot b = *cache.TakeRequest();
  const PageSet prefix = PrefixOf(cache, a, 18);
  const PageId own = cache.Adopt(b, prefix).value();
  // 18 entries: one whole page of 16 is shared, the other two are copied to a page of b's own.
  ASSERT_GT(own.value, 0);
  EXPECT_EQ(cache.pages(b).c128, (std::vector<PageId>{prefix.c128[0], own}));
  EXPECT_NE(cache.pages(a).c128[1], own);
  const RequestSlot both[] = {a, b};
  for (int i = 0; i < 300; ++i) {
    const auto loc = cache.Decode(both).value();
    ASSERT_NE(loc.full[0].value / kPageTokens, loc.full[1].value / kPageTokens);
    ASSERT_NE(loc.swa[0].value / kPageTokens, loc.swa[1].value / kPageTokens);
  }
  for (size_t i = 18; i < cache.pages(b).full.size(); ++i) {
    EXPECT_NE(cache.pages(a).full[i], cache.pages(b).full[i]);
    EXPECT_NE(cache.pages(a).swa[i], cache.pages(b).swa[i]);
  }
  // b's window moves on; a's pages, of which b held some, stay a's.
  cache.EvictPast(b, cache.length(b));
  EXPECT_EQ(cache.pages(a).swa[17], prefix.swa[17]);
  EXPECT_EQ(cache.SwaSlot(SlotId(static_cast<int32_t>(prefix.full[17].value * kPageTokens))).value,
            prefix.swa[17].value * kPageTokens);
  cache.Free(a);
  cache.Free(b);
  EXPECT_EQ(cache.LeakReport(), "");
}

TEST(CacheSharing, ResumesAtEveryPageBoundaryWithTheWindowAlone) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  Grow(cache, a, 40 * kPageTokens);
  for (int64_t num_pages = 1; num_pages <= 40; ++num_pages) {
    PageSet prefix = PrefixOf(cache, a, num_pages);
    std::fill(prefix.swa.begin(), prefix.swa.end() - 1, PageId(0));
    const RequestSlot b = *cache.TakeRequest();
    ASSERT_TRUE(cache.Adopt(b, prefix));
    Grow(cache, b, 130);
    // The tables of the first step after the boundary, which check that its window is there.
    const StepRequest step{b, TokenPos(static_cast<int32_t>(num_pages * kPageTokens)), 130};
    const StepTables tables = BuildStepTables(cache, {&step, 1});
    EXPECT_EQ(tables.c4_slots.size(), 32u);
    EXPECT_EQ(tables.c4_pages.columns, num_pages + 2);
    cache.EvictPast(b, cache.length(b));
    cache.Free(b);
  }
  cache.Free(a);
  EXPECT_EQ(cache.LeakReport(), "");
}

TEST(CacheSharing, RefusesAPrefixWithoutChangeWhenNoPageIsLeftForItsLastGroup) {
  CacheGeometry geometry = Geometry();
  geometry.c128_pages = 1;
  CacheAllocator cache(geometry);
  const RequestSlot a = *cache.TakeRequest();
  Grow(cache, a, 3 * kPageTokens);
  const RequestSlot b = *cache.TakeRequest();
  const CacheAllocator before = cache;
  EXPECT_EQ(cache.Adopt(b, PrefixOf(cache, a, 3)).error(), (Exhausted{CachePool::kC128, 1, 0}));
  EXPECT_EQ(cache, before);
}

TEST(CacheSharing, GivesSinglePagesToOtherHolders) {
  CacheAllocator cache(Geometry());
  const CacheAllocator empty = cache;
  for (const CachePool pool : {CachePool::kFull, CachePool::kSwa, CachePool::kC128}) {
    const PageThief all(cache, pool, 0);
    EXPECT_EQ(cache.available_pages(pool), 0);
    EXPECT_FALSE(cache.Take(pool));
  }
  EXPECT_EQ(cache.LeakReport(), "");
  const PageId page = *cache.Take(CachePool::kFull);
  EXPECT_EQ(cache.allocator(CachePool::kFull).holders(page), 1);
  cache.Release({.full = {page}, .swa = {PageId(0)}, .c128 = {}});
  EXPECT_EQ(cache.LeakReport(), "");
}

TEST(CacheSharing, GivesAFullPageItsWindowAndTakesItAgain) {
  CacheAllocator cache(Geometry());
  const PageId full = *cache.Take(CachePool::kFull);
  const SlotId token(static_cast<int32_t>(full.value * kPageTokens + 5));
  EXPECT_EQ(cache.SwaSlot(token), SlotId(0));
  for (int round = 0; round < 3; ++round) {
    const PageId swa = *cache.Take(CachePool::kSwa);
    cache.SetWindow(full, swa);
    EXPECT_EQ(cache.SwaSlot(token), SlotId(static_cast<int32_t>(swa.value * kPageTokens + 5)));
    // A second holder keeps it.
    cache.Retain({.full = {full}, .swa = {swa}, .c128 = {}});
    cache.ReleaseWindow(full, swa);
    EXPECT_NE(cache.SwaSlot(token), SlotId(0));
    cache.Release({.full = {full}, .swa = {swa}, .c128 = {}});
    EXPECT_EQ(cache.SwaSlot(token), SlotId(0));
  }
  cache.Release({.full = {full}, .swa = {PageId(0)}, .c128 = {}});
  EXPECT_EQ(cache.LeakReport(), "");
}

TEST(CacheSharingDeathTest, RefusesASecondWindowAndWindowsOfNobody) {
  CacheAllocator cache(Geometry());
  const PageId full = *cache.Take(CachePool::kFull);
  const PageId swa = *cache.Take(CachePool::kSwa);
  EXPECT_DEATH(cache.SetWindow(PageId(full.value + 1), swa), "holders");
  EXPECT_DEATH(cache.SetWindow(full, PageId(swa.value + 1)), "holders");
  cache.SetWindow(full, swa);
  EXPECT_DEATH(cache.SetWindow(full, swa), "against 0");
  EXPECT_DEATH(cache.Release({.full = {full}, .swa = {PageId(0)}, .c128 = {}}), "against 0");
}

TEST(CacheSharingDeathTest, RefusesToWriteIntoAPageThatOthersHold) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  Grow(cache, a, 2 * kPageTokens);
  cache.Retain(PrefixOf(cache, a, 2));
  cache.Trim(a, kPageTokens + 5);
  EXPECT_DEATH((void)cache.Decode({&a, 1}), "2 against 1");
}

TEST(CacheSharingDeathTest, RefusesAPrefixWithoutItsWindow) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  Grow(cache, a, 4 * kPageTokens);
  cache.EvictPast(a, 4 * kPageTokens);
  const RequestSlot b = *cache.TakeRequest();
  EXPECT_DEATH((void)cache.Adopt(b, PrefixOf(cache, a, 2)), "without its window");
}

}  // namespace
}  // namespace cachalot
