// The host tier of the prefix index: which copies it plans, in which order, and what happens when
// there is no room at either end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/page_thief.h"
#include "cache/prefix_scene.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CacheGeometry Geometry() {
  return {.max_requests = 6,
          .full_pages = 60,
          .swa_pages = 60,
          .c128_pages = 21,
          .c128_page_entries = 16,
          .has_c4 = true,
          .window = 128};
}

// What moves of parts there are, in short.
std::vector<std::string> Kinds(const std::vector<CacheMove>& moves) {
  std::vector<std::string> kinds;
  for (const CacheMove& move : moves) {
    const std::string text = TextOf(move);
    kinds.push_back(text.substr(0, text.find(' ', text.find(' ') + 1)));
  }
  return kinds;
}

TEST(PrefixHost, SavesBothPartsAndBringsThemBackInOrder) {
  PrefixScene scene(Geometry(), {.host_slots = {8, 8}});
  const Tokens text = Text(1, 1);
  const RequestSlot slot = scene.Run(text);
  const PageSet pages = scene.cache.pages(slot);
  scene.cache.Free(slot);
  const PagePlace place = {pages.full[0], pages.swa[0], pages.c128[0], 0};
  const auto saved = scene.Evict(CachePool::kFull, 1);
  EXPECT_THAT(saved, ElementsAre(CacheMove(ToHost{PagePart::kHistory, place, HostSlot(1)}),
                                 CacheMove(ToHost{PagePart::kWindow, place, HostSlot(1)})));
  EXPECT_EQ(scene.cache.LeakReport(), "");
  EXPECT_EQ(scene.index.Match(AskFor(text, 1)), 1);

  const RequestSlot back = *scene.cache.TakeRequest();
  std::vector<CacheMove> moves;
  ASSERT_EQ(scene.index.Adopt(back, AskFor(text, 1), moves), 1);
  const PageSet held = scene.cache.pages(back);
  ASSERT_EQ(moves.size(), 3u);
  const auto first = std::get<FromHost>(moves[0]);
  EXPECT_EQ(first.part, PagePart::kHistory);
  EXPECT_EQ(first.from, HostSlot(1));
  EXPECT_EQ(first.to, (PagePlace{held.full[0], PageId(0), first.to.c128, 0}));
  EXPECT_EQ(moves[1],
            CacheMove(FromHost{
                PagePart::kWindow, HostSlot(1), {held.full[0], held.swa[0], first.to.c128, 0}}));
  EXPECT_EQ(moves[2], CacheMove(CopyEntries{first.to.c128, held.c128[0], 0, 1}));
  const PrefixStats stats = scene.index.stats();
  EXPECT_EQ(stats.from_host, 2);
  // It is in both tiers now, so it goes without a copy.
  EXPECT_EQ(stats.host_pages + stats.host_windows + stats.device_pages + stats.device_windows, 4);
  scene.cache.Free(back);
  EXPECT_THAT(scene.Evict(CachePool::kFull, 1), IsEmpty());
  EXPECT_EQ(scene.index.Match(AskFor(text, 1)), 1);
}

TEST(PrefixHost, SavesAWindowAlone) {
  PrefixScene scene(Geometry(), {.host_slots = {8, 8}});
  const Tokens text = Text(1, 2);
  scene.RunAndFree(text);
  EXPECT_THAT(Kinds(scene.Evict(CachePool::kSwa, 2)),
              ElementsAre("to-host window", "to-host window"));
  EXPECT_EQ(scene.index.stats().device_pages, 2);
  int64_t adopted = 0;
  scene.Adopt(AskFor(text, 2), &adopted);
  EXPECT_EQ(adopted, 2);
  EXPECT_EQ(scene.index.stats().from_host, 1);
}

TEST(PrefixHost, DropsTheLeastRecentWhenTheTierIsFull) {
  PrefixScene scene(Geometry(), {.host_slots = {3, 3}});
  const Tokens a = Text(1, 2);
  const Tokens b = Text(2, 2);
  scene.RunAndFree(a);
  scene.RunAndFree(b);
  scene.Evict(CachePool::kFull, 4);
  // Of a only the first page is left.
  EXPECT_EQ(scene.index.Match(AskFor(a, 2)), 1);
  EXPECT_EQ(scene.index.Match(AskFor(b, 2)), 2);
  EXPECT_EQ(scene.index.stats().host_pages, 3);
  EXPECT_EQ(scene.index.stats().nodes, 3);
  scene.RunAndFree(a);
  scene.RunAndFree(b);
  scene.index.Clear();
  EXPECT_EQ(scene.cache.LeakReport(), "");
}

TEST(PrefixHost, MakesAHitShorterWhereOnlyHistoriesFit) {
  PrefixScene scene(Geometry(), {.host_slots = {20, 1}});
  const Tokens text = Text(1, 10);
  scene.RunAndFree(text);
  scene.Evict(CachePool::kFull, 10);
  EXPECT_EQ(scene.index.stats().host_pages, 10);
  EXPECT_EQ(scene.index.stats().host_windows, 1);
  const int64_t found = scene.index.Match(AskFor(text, 10));
  EXPECT_GT(found, 0);
  int64_t adopted = 0;
  scene.Adopt(AskFor(text, 10), &adopted);
  EXPECT_EQ(adopted, found);
}

// Some pages of a group are still there: the new c128 page gets their entries too.
TEST(PrefixHost, CompletesAGroupOfWhichAPartIsThere) {
  for (int64_t evicted = 0; evicted <= 20; ++evicted) {
    PrefixScene scene(Geometry(), {.host_slots = {30, 30}});
    const Tokens text = Text(1, 20);
    scene.RunAndFree(text);
    scene.Evict(CachePool::kFull, evicted);
    for (const int64_t pages : {20, 18, 16, 3}) {
      int64_t adopted = 0;
      const RequestSlot slot = scene.Adopt(AskFor(text, pages), &adopted);
      ASSERT_EQ(adopted, pages) << evicted;
      scene.cache.Free(slot);
    }
  }
}

// A text whose head has left the device while its tail, in use elsewhere, has not.
TEST(PrefixHost, BringsBackTheHeadOfATailThatIsInUse) {
  PrefixScene scene(Geometry(), {.host_slots = {30, 30}});
  const Tokens text = Text(1, 6);
  // Two requests compute the same text; the index has the head of one and the tail of the other.
  const RequestSlot a = scene.Adopt(text);
  const RequestSlot b = scene.Adopt(text);
  scene.Continue(a, Tokens(text.begin(), text.begin() + 3 * kPageTokens));
  scene.Continue(b, text);
  scene.cache.Free(a);
  scene.Evict(CachePool::kFull, 3);
  EXPECT_EQ(scene.index.stats().device_pages, 3);
  int64_t adopted = 0;
  const RequestSlot c = scene.Adopt(AskFor(text, 6), &adopted);
  EXPECT_EQ(adopted, 6);
  scene.cache.Free(b);
  scene.cache.Free(c);
  scene.index.Clear();
  EXPECT_EQ(scene.cache.LeakReport(), "");
}

// A page that left the index while requests held it, and was put there again without its window.
TEST(PrefixHost, TakesTheWindowThatAFullPageHasAlready) {
  PrefixScene scene(Geometry(), {.host_slots = {8, 8}});
  const Tokens text = Text(1, 3);
  scene.RunAndFree(text);
  scene.Adopt(AskFor(text, 1));  // holds the window of page 0
  const RequestSlot longer = scene.Adopt(AskFor(text, 3));
  const int64_t own_pages = 2;
  scene.Evict(CachePool::kC128, 21 - own_pages - scene.cache.available_pages(CachePool::kC128));
  EXPECT_EQ(scene.index.stats().device_pages, 0);
  scene.Continue(longer, text);
  EXPECT_EQ(scene.index.stats().device_windows, 1);
  int64_t adopted = 0;
  scene.Adopt(AskFor(text, 1), &adopted);
  EXPECT_EQ(adopted, 1);
  EXPECT_EQ(scene.index.stats().device_windows, 2);
}

// Bringing one text back pushes another out, for which the tier has no room but that of the first.
TEST(PrefixHost, SavesNothingOverWhatIsBeingBroughtBack) {
  CacheGeometry geometry = Geometry();
  geometry.full_pages = 24;
  PrefixScene scene(geometry, {.host_slots = {20, 20}});
  const Tokens a = Text(1, 20);
  scene.RunAndFree(a);
  scene.RunAndFree(Text(2, 20));
  ASSERT_GE(scene.index.stats().host_pages, 16);
  int64_t adopted = 0;
  scene.Adopt(AskFor(a, 20), &adopted);
  EXPECT_EQ(adopted, 20);
}

// For every pool and every k: k pages are free and nothing else can be had. What cannot come back
// stays in the host tier, nothing is mixed up, and with room it all comes back.
TEST(PrefixHost, SurvivesAShortageAfterAnyNumberOfPages) {
  int shortages = 0;
  for (const CachePool pool : {CachePool::kFull, CachePool::kSwa, CachePool::kC128}) {
    for (const int64_t window : {128, 200}) {
      for (int64_t left = 0; left <= 21; ++left) {
        CacheGeometry geometry = Geometry();
        geometry.window = window;
        PrefixScene scene(geometry, {.host_slots = {40, 40}});
        const Tokens text = Text(1, 20);
        scene.RunAndFree(text);
        scene.Evict(CachePool::kFull, 17);
        int64_t adopted = 0;
        {
          const PageThief thief(scene.cache, pool, left);
          const RequestSlot slot = scene.Adopt(AskFor(text, 20), &adopted);
          scene.cache.Free(slot);
        }
        shortages += adopted < 20;
        const RequestSlot again = scene.Adopt(AskFor(text, 20), &adopted);
        EXPECT_EQ(adopted, 20) << NameOf(pool) << " " << left;
        scene.cache.Free(again);
        scene.index.Clear();
        EXPECT_EQ(scene.cache.LeakReport(), "");
      }
    }
  }
  EXPECT_GT(shortages, 40);
}

}  // namespace
}  // namespace cachalot
