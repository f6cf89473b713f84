#include "cache/paged_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cache/state_pool.h"

namespace cachalot {
namespace {

constexpr RequestSlot kSlot(1);

int64_t PagesHeld(const StatePool& pool) {
  return pool.allocator().num_pages() - pool.allocator().available_pages();
}

void Grow(StatePool& pool, int64_t begin, int64_t end) {
  const TokenRange tokens{kSlot, begin, end};
  pool.Take({&tokens, 1});
}

TEST(PagedState, HasThePublishedPagesOfARequest) {
  EXPECT_EQ(StatePagesPerRequest(4, 128), 2);
  EXPECT_EQ(StatePagesPerRequest(128, 128), 3);
  EXPECT_EQ(StatePagesPerRequest(128, 64), 5);
  EXPECT_EQ(StatePagesPerRequest(128, 16), 16);
  EXPECT_EQ(StatePagesPerRequest(128, 230), 3);
  EXPECT_EQ(StatePagesPerRequest(4, 256), 2);
}

TEST(PagedState, KeepsThePublishedTails) {
  const struct {
    int64_t tokens;
    int64_t c4;
    int64_t c128;
  } tails[] = {{1, 1, 1},       {127, 127, 127}, {128, 128, 0}, {131, 131, 3}, {132, 4, 4},
               {255, 127, 127}, {256, 128, 0},   {259, 131, 3}, {260, 4, 4},   {28000, 96, 96}};
  for (const auto& tail : tails) {
    EXPECT_EQ(StateTail(4, tail.tokens), tail.c4) << tail.tokens;
    EXPECT_EQ(StateTail(128, tail.tokens), tail.c128) << tail.tokens;
  }
}

TEST(PagedState, EvictsBelowThePublishedWatermarks) {
  EXPECT_EQ(StateWatermark(4, 151), 0);
  EXPECT_EQ(StateWatermark(4, 152), 128);
  EXPECT_EQ(StateWatermark(128, 319), 0);
  EXPECT_EQ(StateWatermark(128, 320), 128);
}

TEST(PagedState, KeepsAllThatALaterStepReads) {
  for (int64_t tokens = 0; tokens < 5000; ++tokens) {
    const int64_t begun4 = std::max<int64_t>(0, tokens / 4 * 4 - 4);
    const int64_t begun128 = tokens / 128 * 128;
    ASSERT_EQ(FirstStateRead(4, tokens), begun4);
    ASSERT_EQ(FirstStateRead(128, tokens), begun128);
    for (const int64_t ratio : {4, 128}) {
      const int64_t offset = tokens - StateTail(ratio, tokens);
      ASSERT_EQ(offset % kPageTokens, 0);
      ASSERT_LE(offset, FirstStateRead(ratio, tokens));
      ASSERT_LE(StateWatermark(ratio, tokens), FirstStateRead(ratio, tokens));
    }
  }
}

// Any prompt, then 600 steps of one token: never more pages than one request is given, which all are
// had at some time; never a row gone that is read.
TEST(PagedState, KeepsEveryRequestToItsPages) {
  for (const int64_t ratio : {4, 128}) {
    int64_t most = 0;
    for (int64_t prompt = 1; prompt < 700; ++prompt) {
      StatePool pool(ratio, StatePagesPerRequest(ratio), 1);
      Grow(pool, 0, prompt);
      for (int64_t tokens = prompt; tokens < prompt + 600; ++tokens) {
        pool.Evict(kSlot, tokens);
        pool.CheckReadable(kSlot, tokens);
        Grow(pool, tokens, tokens + 1);  // checks that there are pages
        most = std::max(most, PagesHeld(pool));
        ASSERT_EQ(pool.rows_taken(kSlot) % kPageTokens, (tokens + 1) % kPageTokens);
      }
      pool.Free(kSlot);
      ASSERT_EQ(PagesHeld(pool), 0);
    }
    EXPECT_EQ(most, StatePagesPerRequest(ratio));
  }
}

// From every length, a step of any number of tokens: the pages that it holds for a while are no more
// than planned for so many tokens, and up to the widest draft they are those of the request alone.
TEST(PagedState, NeedsNoMorePagesForAStepThanPlanned) {
  for (const int64_t ratio : {4, 128}) {
    int64_t widest = 1000;
    StatePool pool(ratio, 20, 1);
    for (int64_t tokens = 0; tokens < 400; ++tokens) {
      pool.Evict(kSlot, tokens);
      for (int64_t more = 1; more < 300; ++more) {
        StatePool grown = pool;
        Grow(grown, tokens, tokens + more);
        ASSERT_LE(PagesHeld(grown), PagedStatePages(ratio, 1, more)) << tokens << " + " << more;
        if (PagesHeld(grown) > StatePagesPerRequest(ratio)) {
          widest = std::min(widest, more - 1);
        }
      }
      Grow(pool, tokens, tokens + 1);
    }
    EXPECT_EQ(widest, PagedDraftTokens(ratio));
  }
}

TEST(PagedState, SkipsWhatItsStepHasAtHand) {
  StatePool pool(4, 10, 1);
  Grow(pool, 0, 100);
  Grow(pool, 100, 700);  // the begun page goes on, then the tail
  EXPECT_THAT(pool.pages(kSlot), testing::ElementsAre(PageId(1), PageId(0), PageId(0), PageId(0),
                                                      PageId(0), PageId(2)));
  EXPECT_EQ(pool.rows_taken(kSlot), 128 + 60);
  EXPECT_EQ(pool.offset(kSlot), 0);
  pool.Evict(kSlot, 700);
  EXPECT_EQ(pool.offset(kSlot), 640);
  EXPECT_EQ(PagesHeld(pool), 1);
  Grow(pool, 700, 710);
  pool.Trim({kSlot, 703, 710});
  EXPECT_EQ(pool.rows_taken(kSlot), 128 + 63);
}

TEST(PagedState, RefusesDraftsThatWouldNeedMorePages) {
  CacheShape shape;
  shape.ratios = {0, 4, 128};
  EXPECT_TRUE(CheckDraftWidth(shape, StateKind::kPaged, 65));
  const Status refused = CheckDraftWidth(shape, StateKind::kPaged, 66);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::kUnsupported);
  EXPECT_EQ(refused.error().message,
            "speculation: 66 tokens to verify at once, but layers of ratio 128 take at most 65");
  shape.ratios = {4};
  EXPECT_TRUE(CheckDraftWidth(shape, StateKind::kPaged, 105));
  EXPECT_FALSE(CheckDraftWidth(shape, StateKind::kPaged, 106));
}

TEST(PagedStateDeathTest, TrimsNothingThatIsStillToBeRead) {
  StatePool pool(4, 10, 1);
  Grow(pool, 0, 700);
  EXPECT_DEATH(pool.Trim({kSlot, 642, 700}),
               "the state of positions 636 to 641, of ratio 4, is gone");
  EXPECT_DEATH(Grow(pool, 300, 301), "token 300 continues a page without state");
}

}  // namespace
}  // namespace cachalot
