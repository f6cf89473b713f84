#include "cache/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/prefix_scene.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CacheGeometry Geometry() {
  return {.max_requests = 8,
          .full_pages = 200,
          .swa_pages = 200,
          .c128_pages = 60,
          .c128_page_entries = 16,
          .has_c4 = true,
          .window = 128};
}

TEST(PrefixIndex, FindsEveryWholePageThatLeavesATokenToRun) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 5, 60);
  scene.RunAndFree(text);
  EXPECT_EQ(scene.index.Match({}), 0);
  for (size_t n = 1; n <= text.size(); ++n) {
    ASSERT_EQ(scene.index.Match(std::span(text).first(n)), (static_cast<int64_t>(n) - 1) / 128);
  }
  // The page with the end of the text was not whole.
  EXPECT_EQ(scene.index.Match(text + Text(2, 2)), 5);
}

TEST(PrefixIndex, ComparesEveryToken) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 5);
  scene.RunAndFree(text);
  for (size_t changed = 0; changed < text.size(); ++changed) {
    Tokens other = AskFor(text, 5);
    other[changed] = -1;
    ASSERT_EQ(scene.index.Match(other), static_cast<int64_t>(changed) / 128);
  }
}

// Row 29 (docs/contracts/npu-rows.md).
TEST(PrefixIndex, LeavesTheUnfinishedPageToItsRequest) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 5 * 16, 77);
  const RequestSlot slot = scene.Run(text);
  EXPECT_EQ(scene.index.Match(text), 5 * 16);
  const auto& full = scene.cache.pages(slot).full;
  EXPECT_EQ(scene.cache.allocator(CachePool::kFull).holders(full[79]), 2);
  EXPECT_EQ(scene.cache.allocator(CachePool::kFull).holders(full[80]), 1);
  scene.cache.Free(slot);
  EXPECT_EQ(scene.cache.available_pages(CachePool::kFull), 200 - 80);
}

// Row 31, the metadata: whatever is found at a boundary is what stands there (PrefixScene checks).
TEST(PrefixIndex, ResumesAtEveryPageBoundary) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 40);
  scene.RunAndFree(text);
  for (int64_t num_pages = 0; num_pages <= 40; ++num_pages) {
    int64_t adopted = 0;
    const RequestSlot slot = scene.Adopt(AskFor(text, num_pages), &adopted);
    ASSERT_EQ(adopted, num_pages);
    scene.cache.Free(slot);
  }
}

// Row 33, the metadata.
TEST(PrefixIndex, SharesABeginningBetweenRequestsThatPart) {
  PrefixScene scene(Geometry());
  const Tokens common = Text(1, 5);
  const RequestSlot a = scene.Run(common + Text(2, 3));
  const RequestSlot b = scene.Run(common + Text(3, 4));
  for (size_t page = 0; page < 7; ++page) {
    EXPECT_EQ(scene.cache.pages(a).full[page] == scene.cache.pages(b).full[page], page < 5);
  }
  EXPECT_NE(scene.cache.pages(a).c128[0], scene.cache.pages(b).c128[0]);
  // Each goes on in its own pages; whoever follows one of them finds all of it.
  scene.Continue(a, common + Text(2, 20));
  scene.Continue(b, common + Text(3, 20));
  scene.cache.Free(a);
  scene.cache.Free(b);
  for (const int32_t tail : {2, 3}) {
    int64_t adopted = 0;
    scene.Adopt(common + Text(tail, 20, 1), &adopted);
    EXPECT_EQ(adopted, 25);
  }
  EXPECT_EQ(scene.index.stats().nodes, 5 + 20 + 20);
}

TEST(PrefixIndex, NeedsTheWindowsThatTheNextTokenSees) {
  for (const int64_t window : {1, 64, 127, 128, 129, 200, 256, 257, 384}) {
    for (int64_t first = 0; first < 8; ++first) {
      CacheGeometry geometry = Geometry();
      geometry.window = window;
      PrefixScene scene(geometry);
      // Windows from page `first` on.
      const Tokens text = Text(1, 8);
      const RequestSlot slot = *scene.cache.TakeRequest();
      const Growth growth{slot, 8 * kPageTokens,
                          TokenPos(static_cast<int32_t>(first * kPageTokens))};
      ASSERT_TRUE(scene.cache.Extend({&growth, 1}));
      scene.index.Insert(slot, text, true);
      int64_t expected = 0;
      for (int64_t pages = 1; pages <= 8; ++pages) {
        const int64_t seen = std::max<int64_t>(0, pages * kPageTokens - window);
        expected = seen / kPageTokens >= first ? pages : expected;
        ASSERT_EQ(scene.index.Match(AskFor(text, pages)), expected)
            << "window " << window << ", from page " << first << ", " << pages << " pages";
      }
    }
  }
}

TEST(PrefixIndex, KeepsTheWindowsOfEighthPagesAndEndsTheLongest) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 10);
  scene.RunAndFree(text);
  const auto matches = [&] {
    std::vector<int64_t> found;
    for (const int64_t pages : {7, 8, 9, 10}) {
      found.push_back(scene.index.Match(AskFor(text, pages)));
    }
    return found;
  };
  EXPECT_THAT(matches(), ElementsAre(7, 8, 9, 10));
  scene.Evict(CachePool::kSwa, 8);
  EXPECT_THAT(matches(), ElementsAre(0, 8, 8, 10));
  scene.Evict(CachePool::kSwa, 1);
  EXPECT_THAT(matches(), ElementsAre(0, 0, 0, 10));
  scene.Evict(CachePool::kSwa, 1);
  EXPECT_THAT(matches(), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(scene.index.stats().device_pages, 10);
  EXPECT_EQ(scene.index.stats().evictions, 10);
}

TEST(PrefixIndex, KeepsTheWindowWherePromptsPart) {
  PrefixScene scene(Geometry());
  const Tokens common = Text(1, 3);
  scene.RunAndFree(common + Text(2, 2));
  scene.RunAndFree(common + Text(3, 2));
  scene.Evict(CachePool::kSwa, 7 - 3);
  EXPECT_EQ(scene.index.Match(common + Text(4, 2)), 3);
  EXPECT_EQ(scene.index.Match(AskFor(common + Text(2, 2), 5)), 5);
  EXPECT_EQ(scene.index.Match(AskFor(common + Text(3, 2), 5)), 5);
  EXPECT_EQ(scene.index.Match(AskFor(common, 2)), 0);
}

TEST(PrefixIndex, TakesTheLeastRecentFirstAndAPageBeforeThoseAboveIt) {
  PrefixScene scene(Geometry());
  const Tokens a = Text(1, 3);
  const Tokens b = Text(2, 2);
  scene.RunAndFree(a);
  scene.RunAndFree(b);
  scene.cache.Free(scene.Adopt(AskFor(a, 3)));
  const auto matches = [&] {
    return std::pair<int64_t, int64_t>(scene.index.Match(AskFor(a, 3)),
                                       scene.index.Match(AskFor(b, 2)));
  };
  using Found = std::pair<int64_t, int64_t>;
  for (const Found& expected : {Found(3, 1), Found(3, 0), Found(2, 0), Found(1, 0), Found(0, 0)}) {
    scene.Evict(CachePool::kFull, 1);
    EXPECT_EQ(matches(), expected);
  }
  EXPECT_EQ(scene.index.stats().nodes, 0);
  EXPECT_EQ(scene.cache.LeakReport(), "");
}

// A page in use that eviction passed over must not outlive those above it for that.
TEST(PrefixIndex, KeepsTheOrderOfPagesInUse) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 2);
  const RequestSlot user = scene.Run(text);
  scene.RunAndFree(Text(2, 1));
  scene.cache.Free(scene.Adopt(AskFor(text, 1)));
  scene.Evict(CachePool::kFull, 1);
  EXPECT_EQ(scene.index.Match(AskFor(text, 2)), 2);
  scene.cache.Free(user);
  scene.Evict(CachePool::kFull, 1);
  EXPECT_EQ(scene.index.Match(AskFor(text, 2)), 1);
}

// Row 30.
TEST(PrefixIndex, GivesAPageBackExactlyWithItsLastHolder) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 4);
  const RequestSlot a = scene.Run(text);
  const RequestSlot b = scene.Adopt(AskFor(text, 4));
  const auto free_pages = [&] { return scene.cache.available_pages(CachePool::kFull); };
  std::vector<CacheMove> moves;
  EXPECT_FALSE(scene.index.Evict(CachePool::kFull, 197, moves));
  EXPECT_EQ(scene.index.stats().device_pages, 4);
  scene.cache.Free(a);
  EXPECT_EQ(free_pages(), 196);
  scene.index.Clear();
  EXPECT_EQ(free_pages(), 196);
  scene.cache.Free(b);
  EXPECT_EQ(free_pages(), 200);
  EXPECT_EQ(scene.cache.LeakReport(), "");
  EXPECT_THAT(moves, IsEmpty());
}

TEST(PrefixIndex, ExchangesPagesWithoutAWindowForThoseWithOne) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 3);
  // Three requests at once, none of which finds the others.
  std::vector<RequestSlot> slots;
  for (const int32_t swa_begin : {256, 0, 0}) {
    slots.push_back(*scene.cache.TakeRequest());
    const Growth growth{slots.back(), 3 * kPageTokens, TokenPos(swa_begin)};
    ASSERT_TRUE(scene.cache.Extend({&growth, 1}));
  }
  const auto holders = [&](size_t request, size_t page) {
    return scene.cache.allocator(CachePool::kFull)
        .holders(scene.cache.pages(slots[request]).full[page]);
  };
  scene.index.Insert(slots[0], text, true);
  EXPECT_EQ(scene.index.Match(AskFor(text, 2)), 0);
  scene.index.Insert(slots[1], text, true);
  EXPECT_EQ(scene.index.Match(AskFor(text, 2)), 2);
  EXPECT_EQ(holders(0, 1), 1);
  EXPECT_EQ(holders(1, 1), 2);
  EXPECT_EQ(holders(0, 2), 2);  // had its window
  scene.index.Insert(slots[2], text, true);
  EXPECT_EQ(holders(1, 1), 2);
  EXPECT_EQ(holders(2, 1), 1);
  for (const RequestSlot slot : slots) {
    scene.cache.Free(slot);
  }
  EXPECT_EQ(scene.cache.available_pages(CachePool::kFull), 197);
  EXPECT_EQ(scene.cache.available_pages(CachePool::kSwa), 197);
  scene.index.CheckConsistency();
}

TEST(PrefixIndex, CopiesTheEntriesOfAnUnfinishedGroup) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 40);
  const RequestSlot owner = scene.Run(text);
  for (const int64_t num_pages : {1, 15, 16, 17, 31, 32, 33, 40}) {
    const RequestSlot slot = *scene.cache.TakeRequest();
    std::vector<CacheMove> moves;
    ASSERT_EQ(scene.index.Adopt(slot, AskFor(text, num_pages), moves), num_pages);
    const auto& held = scene.cache.pages(slot).c128;
    const auto& owned = scene.cache.pages(owner).c128;
    ASSERT_EQ(static_cast<int64_t>(held.size()), CeilDiv(num_pages, 16));
    for (size_t group = 0; group < held.size(); ++group) {
      EXPECT_EQ(held[group] == owned[group], static_cast<int64_t>(group) < num_pages / 16);
    }
    if (num_pages % 16 == 0) {
      EXPECT_THAT(moves, IsEmpty());
    } else {
      EXPECT_THAT(moves, ElementsAre(CacheMove(
                             CopyEntries{owned[held.size() - 1], held.back(), 0, num_pages % 16})));
    }
    scene.cache.Free(slot);
  }
}

// A conversation of short turns: each turn has a c128 page of its own, but the index keeps one.
TEST(PrefixIndex, HoldsOneC128PageForAGroupThatGrewTurnByTurn) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 20);
  for (int64_t turn = 1; turn <= 20; ++turn) {
    scene.RunAndFree(Tokens(text.begin(), text.begin() + turn * kPageTokens));
    EXPECT_EQ(scene.cache.available_pages(CachePool::kC128), 60 - CeilDiv(turn, 16)) << turn;
  }
  EXPECT_EQ(scene.index.Match(AskFor(text, 20)), 20);
}

// Pages of a text in use may go from the index for their c128 pages, which are not its user's.
TEST(PrefixIndex, CanGiveBackEveryC128PageThatNoRequestHolds) {
  PrefixScene scene(Geometry());
  const Tokens text = Text(1, 3);
  const RequestSlot a = scene.Run(text);
  const RequestSlot b = scene.Adopt(AskFor(text, 3));
  scene.cache.Free(a);
  scene.Evict(CachePool::kC128, 1);
  EXPECT_EQ(scene.cache.available_pages(CachePool::kC128), 59);
  EXPECT_EQ(scene.cache.available_pages(CachePool::kFull), 197);
  scene.cache.Free(b);
  EXPECT_EQ(scene.cache.LeakReport(), "");
}

TEST(PrefixIndex, ServesModelsWithoutSomeOfThePools) {
  for (const bool c4 : {false, true}) {
    for (const bool c128 : {false, true}) {
      CacheGeometry geometry = Geometry();
      geometry.has_c4 = c4;
      geometry.c128_pages = c128 ? 60 : 0;
      PrefixScene scene(geometry, {.host_slots = {20, 20}});
      const Tokens text = Text(1, 18);
      scene.RunAndFree(text);
      scene.Evict(CachePool::kFull, 9);
      int64_t adopted = 0;
      const RequestSlot slot = scene.Adopt(AskFor(text, 18), &adopted);
      EXPECT_EQ(adopted, 18);
      scene.cache.Free(slot);
      scene.index.Clear();
      EXPECT_EQ(scene.cache.LeakReport(), "");
    }
  }
}

TEST(PrefixIndex, FindsNothingWhenItIsOff) {
  PrefixScene scene(Geometry(), {.enabled = false, .host_slots = {4, 4}});
  const Tokens text = Text(1, 3);
  const RequestSlot slot = scene.Run(text);
  EXPECT_EQ(scene.index.Match(AskFor(text, 3)), 0);
  scene.cache.Free(slot);
  EXPECT_EQ(scene.cache.LeakReport(), "");
}

TEST(PrefixIndex, ForgetsEverythingWhenCleared) {
  PrefixScene scene(Geometry(), {.host_slots = {9, 9}});
  scene.RunAndFree(Text(1, 8));
  scene.RunAndFree(Text(2, 5));
  scene.Evict(CachePool::kFull, 6);
  scene.index.Clear();
  EXPECT_EQ(scene.index.Match(AskFor(Text(1, 8), 8)), 0);
  EXPECT_EQ(scene.cache.LeakReport(), "");
  const PrefixStats stats = scene.index.stats();
  EXPECT_EQ(stats.nodes + stats.device_pages + stats.device_windows, 0);
  EXPECT_EQ(stats.host_pages + stats.host_windows, 0);
  scene.index.CheckConsistency();
  scene.RunAndFree(Text(1, 8));
  EXPECT_EQ(scene.index.Match(AskFor(Text(1, 8), 8)), 8);
}

}  // namespace
}  // namespace cachalot
