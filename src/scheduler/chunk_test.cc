#include "scheduler/chunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int64_t> Share(std::vector<int64_t> remaining, int64_t chunk) {
  return ShareChunk(remaining, chunk);
}

TEST(ShareChunk, GivesAPromptAloneAllOfTheChunk) {
  EXPECT_THAT(Share({}, 512), IsEmpty());
  EXPECT_THAT(Share({5000}, 512), ElementsAre(512));
  EXPECT_THAT(Share({300}, 512), ElementsAre(300));
  EXPECT_THAT(Share({512}, 512), ElementsAre(512));
  EXPECT_THAT(Share({129}, 128), ElementsAre(128));
}

TEST(ShareChunk, LetsShortPromptsPassALongOne) {
  EXPECT_THAT(Share({100000, 100}, 512), ElementsAre(384, 100));
  EXPECT_THAT(Share({100000, 3000, 200}, 512), ElementsAre(256, 0, 200));
  EXPECT_THAT(Share({100000, 3000, 100}, 512), ElementsAre(256, 128, 100));
}

TEST(ShareChunk, KeepsHalfForTheFirst) {
  EXPECT_THAT(Share({1000, 100, 100, 100}, 512), ElementsAre(256, 100, 100, 0));
  EXPECT_THAT(Share({1000, 1000}, 128), ElementsAre(128, 0));
}

TEST(ShareChunk, EndsAtPagesOrAtTheEndAndNeverGivesMoreThanThereIs) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<int64_t> remaining(random() % 6 + 1);
    for (int64_t& tokens : remaining) {
      tokens = random() % 900 + 1;
    }
    const int64_t chunk = static_cast<int64_t>(random() % 6 + 1) * 128;
    const auto shares = ShareChunk(remaining, chunk);
    ASSERT_LE(std::accumulate(shares.begin(), shares.end(), int64_t{0}), chunk);
    for (size_t i = 0; i < shares.size(); ++i) {
      ASSERT_TRUE(shares[i] == remaining[i] || shares[i] % 128 == 0);
      ASSERT_LE(shares[i], remaining[i]);
    }
    ASSERT_GE(shares[0], std::min(remaining[0], chunk / 2 / 128 * 128));
    ASSERT_GT(shares[0], 0);
  }
}

}  // namespace
}  // namespace cachalot
