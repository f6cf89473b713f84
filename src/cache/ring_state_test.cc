#include "cache/ring_state.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

TEST(RingState, PutsAPositionIntoItsPagesOrItsRequestsRing) {
  const RingRows rings = RingRowsFor(false);
  EXPECT_EQ(C4StateRow(SlotId(130), rings), 1 * 8 + 2);
  EXPECT_EQ(C4StateRow(SlotId(-1), rings), -1);
  EXPECT_EQ(C128StateRow(RequestSlot(3), TokenPos(300), rings), 3 * 128 + 44);
  EXPECT_EQ(C128StateRow(RequestSlot(3), TokenPos(-1), rings), -1);
}

TEST(RingState, HasWholePagesOfRowsAndKeepsTheLastOneUnused) {
  for (const bool speculative : {false, true}) {
    const RingRows rings = RingRowsFor(speculative);
    for (int32_t num_rings = 0; num_rings < 300; ++num_rings) {
      const int64_t c4 = StateBufferRows(num_rings, rings.c4);
      EXPECT_EQ(c4 % kPageTokens, 0);
      EXPECT_LT(C4StateRow(SlotId(num_rings * 128 + 127), rings), c4 - 1);
      const int64_t c128 = StateBufferRows(num_rings, rings.c128);
      EXPECT_EQ(c128 % kPageTokens, 0);
      EXPECT_LT(C128StateRow(RequestSlot(num_rings), TokenPos(255), rings), c128 - 1);
    }
  }
}

TEST(RingState, KeepsTheRowsBeforeAPageEndUntilThePageGoes) {
  for (const bool speculative : {false, true}) {
    const RingRows rings = RingRowsFor(speculative);
    for (int32_t offset = 0; offset < 124; ++offset) {
      // Later positions of the page never take the place of its last four.
      for (int32_t last = 124; last < 128; ++last) {
        if (C4StateRow(SlotId(128 + offset), rings) == C4StateRow(SlotId(128 + last), rings)) {
          EXPECT_LT(offset, last);
        }
      }
    }
    EXPECT_EQ(C4StateRow(SlotId(128 + 127), rings), 2 * rings.c4 - 1);
  }
}

TEST(RingState, HasTheRowWidthsOfTheModel) {
  EXPECT_EQ(StateWidth(4, 512), 2048);
  EXPECT_EQ(StateWidth(4, 128), 512);
  EXPECT_EQ(StateWidth(128, 512), 1024);
}

TEST(RingState, RefusesDraftsThatWouldOverwriteWhatIsStillNeeded) {
  CacheShape shape;
  shape.ratios = {0, 4, 128};
  EXPECT_TRUE(CheckDraftWidth(shape, StateKind::kRing, 10));
  const Status refused = CheckDraftWidth(shape, StateKind::kRing, 11);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::kUnsupported);
  EXPECT_EQ(refused.error().message,
            "speculation: 11 tokens to verify at once, but layers of ratio 4 take at most 10");
  shape.ratios = {0, 128};
  EXPECT_TRUE(CheckDraftWidth(shape, StateKind::kRing, 130));
  EXPECT_FALSE(CheckDraftWidth(shape, StateKind::kRing, 131));
  shape.ratios = {0};
  EXPECT_TRUE(CheckDraftWidth(shape, StateKind::kRing, 1000));
}

}  // namespace
}  // namespace cachalot
