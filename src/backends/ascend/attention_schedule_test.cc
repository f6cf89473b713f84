#include "backends/ascend/attention_schedule.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace cachalot::ascend {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Place = std::pair<int32_t, int32_t>;  // request, row

ScheduleProblem Problem(int64_t ratio, int64_t top_k, int64_t cores) {
  return {.heads = 64, .tile_rows = 64, .cores = cores, .ratio = ratio, .top_k = top_k};
}

std::vector<int32_t> StartsOf(const std::vector<int32_t>& tokens) {
  std::vector<int32_t> starts(tokens.size() + 1);
  std::partial_sum(tokens.begin(), tokens.end(), starts.begin() + 1);
  return starts;
}

// The ends of the enabled cores, after a look at all that holds for every schedule.
std::vector<Place> EndsOf(const Schedule& schedule) {
  std::vector<Place> ends;
  Place start = {0, 0};
  for (int64_t core = 0; core < kScheduleCores; ++core) {
    const int32_t* words = schedule.data() + core * kScheduleCoreWords;
    if (words[0] == 0) {
      EXPECT_THAT(std::vector<int32_t>(words, words + kScheduleCoreWords), Each(0)) << core;
      continue;
    }
    EXPECT_EQ(static_cast<int64_t>(ends.size()), core) << "enabled cores come first";
    EXPECT_EQ(Place(words[1], words[2]), start) << core;
    EXPECT_EQ(words[3], 0);
    start = {words[4], words[5]};
    EXPECT_EQ(words[6], 0);
    EXPECT_EQ(words[7], 0);
    ends.push_back(start);
  }
  EXPECT_THAT(
      std::vector<int32_t>(schedule.begin() + kScheduleCores * kScheduleCoreWords, schedule.end()),
      Each(0));
  return ends;
}

std::vector<Place> Ends(const ScheduleProblem& problem, const std::vector<int32_t>& tokens,
                        const std::vector<int32_t>& kv) {
  return EndsOf(BuildSchedule(problem, StartsOf(tokens), kv));
}

const std::vector<int32_t> kDecode(8, 1);
const std::vector<int32_t> kDecodeKv = {128, 256, 512, 1024, 2048, 4096, 8192, 12345};

TEST(AttentionSchedule, GivesEachDecodingRequestACore) {
  const auto each = ElementsAre(Place(1, 0), Place(2, 0), Place(3, 0), Place(4, 0), Place(5, 0),
                                Place(6, 0), Place(7, 0), Place(8, 0));
  EXPECT_THAT(Ends(Problem(0, 0, 24), kDecode, kDecodeKv), each);
  EXPECT_THAT(Ends(Problem(128, 0, 24), kDecode, kDecodeKv), each);
  EXPECT_THAT(Ends(Problem(4, 512, 24), kDecode, kDecodeKv),
              ElementsAre(Place(2, 0), Place(3, 0), Place(4, 0), Place(5, 0), Place(6, 0),
                          Place(7, 0), Place(8, 0)));
  EXPECT_THAT(Ends(Problem(128, 0, 4), kDecode, kDecodeKv),
              ElementsAre(Place(2, 0), Place(4, 0), Place(6, 0), Place(8, 0)));
}

TEST(AttentionSchedule, CutsPrefillsBetweenTokens) {
  EXPECT_THAT(Ends(Problem(0, 0, 24), {100, 300}, {100, 300}),
              ElementsAre(Place(0, 20), Place(0, 40), Place(0, 60), Place(0, 76), Place(0, 91),
                          Place(1, 8), Place(1, 28), Place(1, 48), Place(1, 67), Place(1, 83),
                          Place(1, 99), Place(1, 114), Place(1, 130), Place(1, 145), Place(1, 161),
                          Place(1, 176), Place(1, 192), Place(1, 207), Place(1, 223), Place(1, 238),
                          Place(1, 254), Place(1, 269), Place(1, 285), Place(2, 0)));
  EXPECT_THAT(Ends(Problem(0, 0, 4), {1000}, {1000}),
              ElementsAre(Place(0, 261), Place(0, 507), Place(0, 754), Place(1, 0)));
  EXPECT_THAT(Ends(Problem(4, 512, 4), {1000}, {1000}),
              ElementsAre(Place(0, 298), Place(0, 554), Place(0, 787), Place(1, 0)));
  EXPECT_THAT(Ends(Problem(128, 0, 4), {1000}, {1000}),
              ElementsAre(Place(0, 297), Place(0, 531), Place(0, 765), Place(1, 0)));
}

TEST(AttentionSchedule, TakesRequestsWithoutKeysAlong) {
  EXPECT_THAT(Ends(Problem(0, 0, 24), {1, 1}, {0, 0}), ElementsAre(Place(2, 0)));
  EXPECT_THAT(Ends(Problem(0, 0, 4), {1, 1, 1}, {100, 0, 100}),
              ElementsAre(Place(2, 0), Place(3, 0)));
  EXPECT_THAT(Ends(Problem(0, 0, 4), {}, {}), ElementsAre(Place(0, 0)));
}

TEST(AttentionSchedule, CutsDraftsToVerify) {
  EXPECT_THAT(Ends(Problem(128, 0, 4), {6, 6, 6}, {30, 500, 2000}),
              ElementsAre(Place(1, 1), Place(1, 4), Place(2, 2), Place(3, 0)));
}

TEST(AttentionSchedule, KnowsTheTilesOfTheLaterChip) {
  ScheduleProblem problem = Problem(0, 0, 4);
  problem.tile_keys = 128;
  EXPECT_THAT(Ends(problem, {100}, {100}),
              ElementsAre(Place(0, 28), Place(0, 56), Place(0, 79), Place(1, 0)));
}

TEST(AttentionSchedule, CoversEveryRowOnceWhateverTheLengths) {
  std::mt19937 random(7);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    ScheduleProblem problem;
    problem.heads = 1 << between(2, 7);
    problem.tile_rows = between(0, 1) == 0 ? problem.heads : 64;
    problem.tile_keys = between(0, 1) == 0 ? 512 : 128;
    problem.cores = between(1, 36);
    problem.window_left = between(-1, 300);
    problem.window_right = between(-1, 20);
    problem.ratio = std::vector<int64_t>{0, 4, 128}[static_cast<size_t>(between(0, 2))];
    problem.top_k = problem.ratio == 4 ? 512 * between(0, 2) : 0;
    problem.has_window = problem.ratio == 0 || between(0, 3) > 0;
    const int64_t most = 1 << between(0, 9);
    std::vector<int32_t> tokens;
    std::vector<int32_t> kv;
    const int64_t requests = between(1, 12);
    for (int64_t b = 0; b < requests; ++b) {
      tokens.push_back(static_cast<int32_t>(between(0, 3) == 0 ? 0 : between(0, most)));
      // Fewer keys than tokens make no sense to the model; the scheduler must end all the same.
      kv.push_back(static_cast<int32_t>(between(0, 3) == 0 ? between(0, most)
                                                           : tokens.back() + between(0, 5000)));
    }
    const Schedule schedule = BuildSchedule(problem, StartsOf(tokens), kv);
    const std::vector<Place> ends = EndsOf(schedule);
    ASSERT_FALSE(ends.empty());
    EXPECT_LE(static_cast<int64_t>(ends.size()), problem.cores);
    EXPECT_TRUE(std::ranges::is_sorted(ends));
    EXPECT_EQ(ends.back(), Place(requests, 0));
    for (const auto& [request, row] : ends) {
      if (row > 0) {
        const auto b = static_cast<size_t>(request);
        EXPECT_LT((row - 1) * problem.tile_rows, tokens[b] * problem.heads);
      }
    }
    EXPECT_EQ(BuildSchedule(problem, StartsOf(tokens), kv), schedule);
  }
}

}  // namespace
}  // namespace cachalot::ascend
