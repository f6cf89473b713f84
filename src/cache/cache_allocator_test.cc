#include "cache/cache_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

namespace cachalot {
namespace {

CacheGeometry Geometry() {
  return {.max_requests = 3,
          .full_pages = 40,
          .swa_pages = 40,
          .c128_pages = 6,
          .c128_page_entries = 16,
          .has_c4 = true,
          .window = 128};
}

CacheGeometry PagedGeometry() {
  CacheGeometry geometry = Geometry();
  geometry.c4_state_pages = 6;
  geometry.c128_state_pages = 9;
  return geometry;
}

OutCacheLoc Grow(CacheAllocator& cache, RequestSlot slot, int64_t num_tokens) {
  const Growth growth{slot, num_tokens, TokenPos(0)};
  return cache.Extend({&growth, 1}).value();
}

std::vector<PageId> Copy(std::span<const PageId> pages) { return {pages.begin(), pages.end()}; }

int64_t SlotOf(const std::vector<PageId>& pages, int64_t index, int64_t page_slots) {
  return pages[static_cast<size_t>(index / page_slots)].value * page_slots + index % page_slots;
}

TEST(CacheAllocator, GivesPartsOfTheRightLengthsInBatchOrder) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  const RequestSlot b = *cache.TakeRequest();
  Grow(cache, a, 126);
  const Growth batch[] = {{b, 259, TokenPos(0)}, {a, 3, TokenPos(0)}};
  const OutCacheLoc loc = cache.Extend(batch).value();
  ASSERT_EQ(loc.full.size(), 262u);
  ASSERT_EQ(loc.swa.size(), 262u);
  EXPECT_EQ(loc.c4.size(), 259u / 4 + (129u / 4 - 126u / 4));
  EXPECT_EQ(loc.c128.size(), 2u + 1u);
  for (int64_t i = 0; i < 259; ++i) {
    EXPECT_EQ(loc.full[static_cast<size_t>(i)].value, SlotOf(cache.pages(b).full, i, 128));
    EXPECT_EQ(loc.swa[static_cast<size_t>(i)].value, SlotOf(cache.pages(b).swa, i, 128));
  }
  EXPECT_EQ(loc.full[259].value, SlotOf(cache.pages(a).full, 126, 128));
  EXPECT_EQ(loc.c128[0].value, SlotOf(cache.pages(b).c128, 0, 16));
  EXPECT_EQ(loc.c128[2].value, SlotOf(cache.pages(a).c128, 0, 16));
}

TEST(CacheAllocator, GivesSixPartsWithPagedStateAndFourWithRings) {
  CacheAllocator rings(Geometry());
  CacheAllocator paged(PagedGeometry());
  for (CacheAllocator* cache : {&rings, &paged}) {
    const RequestSlot a = *cache->TakeRequest();
    const RequestSlot b = *cache->TakeRequest();
    Grow(*cache, a, 126);
    const Growth batch[] = {{b, 259, TokenPos(0)}, {a, 3, TokenPos(0)}};
    const OutCacheLoc loc = cache->Extend(batch).value();
    EXPECT_EQ(loc.full.size(), 262u);
    EXPECT_EQ(loc.swa.size(), 262u);
    EXPECT_EQ(loc.c4.size(), 65u);
    EXPECT_EQ(loc.c128.size(), 3u);
    if (cache == &rings) {
      EXPECT_TRUE(loc.c4_state.empty());
      EXPECT_TRUE(loc.c128_state.empty());
      continue;
    }
    // The tails of 259 tokens, then positions 126, 127 and 128.
    ASSERT_EQ(loc.c4_state.size(), 131u + 3u);
    ASSERT_EQ(loc.c128_state.size(), 3u + 3u);
    for (int64_t i = 0; i < 131; ++i) {
      EXPECT_EQ(loc.c4_state[static_cast<size_t>(i)].value,
                SlotOf(Copy(cache->state_pages(b, 4)), 128 + i, 128));
    }
    for (int64_t i = 0; i < 3; ++i) {
      const auto of_a = static_cast<size_t>(i);
      EXPECT_EQ(loc.c128_state[of_a].value, SlotOf(Copy(cache->state_pages(b, 128)), 256 + i, 128));
      EXPECT_EQ(loc.c4_state[131 + of_a].value,
                SlotOf(Copy(cache->state_pages(a, 4)), 126 + i, 128));
      EXPECT_EQ(loc.c128_state[3 + of_a].value,
                SlotOf(Copy(cache->state_pages(a, 128)), 126 + i, 128));
    }
    // One row each for a token each.
    const RequestSlot both[] = {a, b};
    const OutCacheLoc next = cache->Decode(both).value();
    EXPECT_EQ(next.c4_state.size(), 2u);
    EXPECT_EQ(next.c128_state.size(), 2u);
    cache->Free(a);
    cache->Free(b);
    EXPECT_EQ(cache->LeakReport(), "");
  }
}

TEST(CacheAllocator, DerivesC4SlotsThatAreUniqueAndShareThePageId) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  const OutCacheLoc loc = Grow(cache, slot, 300);
  ASSERT_EQ(loc.c4.size(), 75u);
  for (size_t entry = 0; entry < loc.c4.size(); ++entry) {
    EXPECT_EQ(loc.c4[entry].value, loc.full[4 * entry + 3].value / 4);
    EXPECT_EQ(loc.c4[entry].value / kC4PageEntries, loc.full[4 * entry].value / kPageTokens);
    EXPECT_EQ(loc.c4[entry].value % kC4PageEntries, static_cast<int64_t>(entry) % kC4PageEntries);
  }
}

TEST(CacheAllocator, CountsEntriesAsPositionsThatCloseAGroup) {
  CacheGeometry geometry = Geometry();
  geometry.full_pages = geometry.swa_pages = 2000;
  geometry.c128_pages = 200;
  CacheAllocator cache(geometry);
  const RequestSlot slot = *cache.TakeRequest();
  int64_t position = 0;
  for (const int64_t n : {1, 2, 1, 120, 3, 1, 0, 128, 255, 257, 1000}) {
    const OutCacheLoc loc = Grow(cache, slot, n);
    size_t c4 = 0;
    size_t c128 = 0;
    for (int64_t i = 0; i < n; ++i, ++position) {
      c4 += position % 4 == 3;
      c128 += position % 128 == 127;
    }
    EXPECT_EQ(loc.c4.size(), c4);
    EXPECT_EQ(loc.c128.size(), c128);
  }
}

TEST(CacheAllocator, LeavesOutThePartsOfPoolsThatTheModelLacks) {
  CacheGeometry geometry = Geometry();
  geometry.has_c4 = false;
  geometry.c128_pages = 0;
  CacheAllocator cache(geometry);
  const RequestSlot slot = *cache.TakeRequest();
  const OutCacheLoc loc = Grow(cache, slot, 1000);
  EXPECT_TRUE(loc.c4.empty());
  EXPECT_TRUE(loc.c128.empty());
  EXPECT_TRUE(cache.pages(slot).c128.empty());
  cache.Trim(slot, 100);
  cache.Free(slot);
  EXPECT_EQ(cache.LeakReport(), "");
}

TEST(CacheAllocator, TakesEmptyBatchesAndEmptyRequests) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  EXPECT_TRUE(cache.Extend({}).value().full.empty());
  const CacheAllocator before = cache;
  EXPECT_TRUE(Grow(cache, slot, 0).full.empty());
  EXPECT_EQ(cache, before);
  EXPECT_EQ(Grow(cache, slot, 3).c4.size(), 0u);
}

TEST(CacheAllocator, MapsFullSlotsToWindowSlots) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  const OutCacheLoc loc = Grow(cache, slot, 600);
  for (size_t i = 0; i < loc.full.size(); ++i) {
    EXPECT_EQ(cache.SwaSlot(loc.full[i]), loc.swa[i]);
  }
  EXPECT_EQ(cache.SwaSlot(SlotId(-1)), SlotId(-1));
  EXPECT_EQ(cache.SwaSlot(SlotId(0)), SlotId(0));
  cache.EvictPast(slot, 600);
  for (size_t i = 0; i < loc.full.size(); ++i) {
    EXPECT_EQ(cache.SwaSlot(loc.full[i]), i < 384 ? SlotId(0) : loc.swa[i]);
  }
}

TEST(CacheAllocator, MapsOnlyTheTailWhenTheWindowHasGoneOn) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  const Growth growth{slot, 1000, TokenPos(1000 - 128)};
  const OutCacheLoc loc = cache.Extend({&growth, 1}).value();
  ASSERT_EQ(loc.swa.size(), 1000u);
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(loc.swa[i].value > 0, i >= 768) << i;
    EXPECT_EQ(cache.SwaSlot(loc.full[i]), loc.swa[i]);
  }
  EXPECT_EQ(cache.available_pages(CachePool::kSwa), 38);
  EXPECT_EQ(Grow(cache, slot, 1).swa.front().value, loc.swa.back().value + 1);
  cache.Free(slot);
  EXPECT_EQ(cache.LeakReport(), "");
}

TEST(CacheAllocator, EvictsWholeWindowPagesAndNothingElse) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  Grow(cache, slot, 1000);
  const auto full = cache.pages(slot).full;
  EXPECT_EQ(cache.EvictPast(slot, 1000), 768);
  EXPECT_EQ(cache.EvictPast(slot, 1000), 768);
  EXPECT_EQ(cache.available_pages(CachePool::kSwa), 38);
  EXPECT_EQ(cache.available_pages(CachePool::kFull), 32);
  EXPECT_EQ(cache.pages(slot).full, full);
  // The page that a boundary needs to be resumed stays until the next boundary.
  Grow(cache, slot, 24);
  EXPECT_EQ(cache.EvictPast(slot, 1024), 896);
  EXPECT_GT(cache.pages(slot).swa.back().value, 0);
  EXPECT_EQ(cache.EvictPast(slot, 10), 896);
}

TEST(CacheAllocator, KeepsAWholeWindowAndAtLeastAPage) {
  for (const int64_t window : {1, 127, 128, 129, 256}) {
    CacheGeometry geometry = Geometry();
    geometry.window = window;
    CacheAllocator cache(geometry);
    const RequestSlot slot = *cache.TakeRequest();
    Grow(cache, slot, 1000);
    for (int64_t committed = 0; committed <= 1000; ++committed) {
      const int64_t kept = std::max<int64_t>(window, 128);
      const int64_t expected = committed < kept ? 0 : (committed - kept) / 128 * 128;
      ASSERT_EQ(cache.EvictPast(slot, committed), expected) << window << " " << committed;
    }
  }
}

TEST(CacheAllocator, SaysWhichPoolIsShort) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  const Growth growth{slot, 41 * 128, TokenPos(0)};
  EXPECT_EQ(cache.Extend({&growth, 1}).error(), (Exhausted{CachePool::kFull, 41, 40}));
}

TEST(CacheAllocator, GivesEveryRequestSlotOnceAndNeverSlotZero) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  const RequestSlot b = *cache.TakeRequest();
  const RequestSlot c = *cache.TakeRequest();
  EXPECT_EQ(std::set<RequestSlot>({a, b, c}),
            std::set<RequestSlot>({RequestSlot(1), RequestSlot(2), RequestSlot(3)}));
  EXPECT_FALSE(cache.TakeRequest());
  EXPECT_EQ(cache.LeakReport(), "requests: 0 of 3 are free");
  Grow(cache, b, 500);
  cache.Free(b);
  // The next tenant finds nothing of the last one's.
  EXPECT_EQ(cache.TakeRequest(), b);
  EXPECT_EQ(cache.pages(b), PageSet());
  EXPECT_EQ(cache.length(b), 0);
}

TEST(CacheAllocator, TrimsWhatLiesWhollyBeyondTheLength) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  Grow(cache, slot, 2048);
  const CacheAllocator before = cache;
  Grow(cache, slot, 2900);
  EXPECT_EQ(cache.pages(slot).c128.size(), 3u);
  cache.Trim(slot, 2049);
  EXPECT_EQ(cache.pages(slot).full.size(), 17u);
  EXPECT_EQ(cache.pages(slot).swa.size(), 17u);
  EXPECT_EQ(cache.pages(slot).c128.size(), 1u);
  EXPECT_EQ(cache.length(slot), 2049);
  cache.Trim(slot, 2048);
  EXPECT_EQ(cache.pages(slot), before.pages(slot));
  for (const CachePool pool : {CachePool::kFull, CachePool::kSwa, CachePool::kC128}) {
    EXPECT_EQ(cache.available_pages(pool), before.available_pages(pool));
  }
}

TEST(CacheAllocator, IsRestoredFromACopy) {
  for (const CacheGeometry& geometry : {Geometry(), PagedGeometry()}) {
    CacheAllocator cache(geometry);
    const RequestSlot slot = *cache.TakeRequest();
    Grow(cache, slot, 1900);
    const CacheAllocator backup = cache;
    for (int round = 0; round < 1000; ++round) {
      Grow(cache, slot, 300);
      ASSERT_NE(cache, backup);
      cache = backup;
    }
    cache.Free(slot);
    EXPECT_EQ(cache.LeakReport(), "");
  }
}

TEST(CacheAllocator, IsAsNewWhenCleared) {
  CacheAllocator cache(PagedGeometry());
  Grow(cache, *cache.TakeRequest(), 1900);
  EXPECT_NE(cache.LeakReport(), "");
  cache.Clear();
  EXPECT_EQ(cache, CacheAllocator(PagedGeometry()));
}

TEST(CacheAllocator, EvictsStateBelowItsWatermarks) {
  CacheAllocator cache(PagedGeometry());
  const RequestSlot slot = *cache.TakeRequest();
  for (int64_t length = 0; length < 400; ++length) {
    Grow(cache, slot, 1);
    if (length == 150) {
      EXPECT_EQ(cache.state_pages(slot, 4).size(), 2u);
    }
  }
  cache.EvictPast(slot, 151);
  EXPECT_GT(cache.state_pages(slot, 4)[0].value, 0);
  cache.EvictPast(slot, 152);
  EXPECT_EQ(cache.state_pages(slot, 4)[0].value, 0);
  EXPECT_GT(cache.state_pages(slot, 4)[1].value, 0);
  cache.EvictPast(slot, 319);
  EXPECT_GT(cache.state_pages(slot, 128)[0].value, 0);
  cache.EvictPast(slot, 320);
  EXPECT_EQ(cache.state_pages(slot, 128)[0].value, 0);
  EXPECT_EQ(cache.available_pages(CachePool::kC4State), 6 - 2);
  EXPECT_EQ(cache.available_pages(CachePool::kC128State), 9 - 3);
}

// Every pool in turn is made too small for step k of a run, for every k: that step changes nothing,
// and succeeds once another request has gone.
TEST(CacheAllocator, ChangesNothingWhicheverPoolIsShortAtWhicheverStep) {
  const std::vector<int64_t> steps = {100, 28, 1, 500, 1420, 1, 2047, 130, 1};
  const auto grow = [](CacheAllocator& cache, RequestSlot a, RequestSlot b, int64_t n) {
    const Growth batch[] = {{a, n, TokenPos(0)}, {b, n + 1, TokenPos(0)}};
    return cache.Extend(batch);
  };
  int shortages = 0;
  for (const CachePool pool : kCachePools) {
    for (int64_t size = 1; size < 80; ++size) {
      CacheGeometry geometry = Geometry();
      int64_t* const sizes[] = {&geometry.full_pages, &geometry.swa_pages, &geometry.c128_pages,
                                &geometry.c4_state_pages, &geometry.c128_state_pages};
      for (int64_t* pages : sizes) {
        *pages = 500;
      }
      *sizes[static_cast<size_t>(pool)] = size;
      CacheAllocator cache(geometry);
      const RequestSlot hog = *cache.TakeRequest();
      const RequestSlot a = *cache.TakeRequest();
      const RequestSlot b = *cache.TakeRequest();
      // The hog's own growth may fail as well: then it holds nothing.
      const Growth hogged{hog, pool == CachePool::kC128 ? 2048 : 127, TokenPos(0)};
      const bool holds = cache.Extend({&hogged, 1}).has_value();
      for (const int64_t n : steps) {
        const CacheAllocator before = cache;
        const auto loc = grow(cache, a, b, n);
        if (loc) {
          continue;
        }
        ++shortages;
        EXPECT_EQ(loc.error().pool, pool);
        EXPECT_EQ(loc.error().have, before.available_pages(pool));
        EXPECT_GT(loc.error().need, loc.error().have);
        ASSERT_EQ(cache, before);
        cache.Free(hog);
        EXPECT_EQ(grow(cache, a, b, n).has_value(),
                  loc.error().need <= loc.error().have + (holds ? 1 : 0));
        break;
      }
    }
  }
  EXPECT_GT(shortages, 100);
}

TEST(CacheAllocator, FindsTheLastSlotExactly) {
  EXPECT_EQ(LastSlot({}, 0, 128), SlotId(-1));
  const PageId last(std::numeric_limits<int32_t>::max() / 128);
  EXPECT_EQ(LastSlot({&last, 1}, 128, 128), SlotId(std::numeric_limits<int32_t>::max()));
  EXPECT_EQ(LastSlot({&last, 1}, 1, 128), SlotId(std::numeric_limits<int32_t>::max() - 127));
}

TEST(CacheAllocatorDeathTest, RefusesSlotsThatNobodyHas) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  cache.Free(slot);
  EXPECT_DEATH(cache.Free(slot), "is not taken");
  EXPECT_DEATH(cache.Free(RequestSlot(0)), "is not taken");
  EXPECT_DEATH(cache.pages(RequestSlot(4)), "is not taken");
  const RequestSlot again = *cache.TakeRequest();
  const RequestSlot twice[] = {again, again};
  EXPECT_DEATH((void)cache.Decode(twice), "twice in a batch");
}

TEST(CacheAllocatorDeathTest, RefusesAPrefixWithPagedState) {
  CacheAllocator cache(PagedGeometry());
  const RequestSlot a = *cache.TakeRequest();
  Grow(cache, a, 2048);
  const PageSet prefix = cache.pages(a);
  const RequestSlot b = *cache.TakeRequest();
  EXPECT_DEATH((void)cache.Adopt(b, prefix), "a prefix of 16 pages has no state");
}

}  // namespace
}  // namespace cachalot
