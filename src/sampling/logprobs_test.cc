#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace cachalot {
namespace {

TEST(Logprobs, AreTheLogarithmsOfTheSoftmax) {
  const std::vector<float> logits = {std::log(0.1F) + 3, std::log(0.4F) + 3, std::log(0.2F) + 3,
                                     std::log(0.3F) + 3};
  const TokenLogprobs found = LogprobsOf(logits, 2, 3);
  EXPECT_EQ(found.chosen.id, 2);
  EXPECT_NEAR(found.chosen.logprob, std::log(0.2), 1e-6);
  ASSERT_EQ(found.top.size(), 3U);
  EXPECT_EQ(found.top[0].id, 1);
  EXPECT_NEAR(found.top[0].logprob, std::log(0.4), 1e-6);
  EXPECT_EQ(found.top[1].id, 3);
  EXPECT_EQ(found.top[2].id, 2);
  EXPECT_EQ(found.top[2].logprob, found.chosen.logprob);
}

TEST(Logprobs, AgreeWithLongDoubleOnRandomRows) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<float> logits(1 + random() % 3000);
    std::normal_distribution<float> spread(static_cast<float>(random() % 100) - 50, 7);
    std::generate(logits.begin(), logits.end(), [&] { return spread(random); });
    long double sum = 0;
    for (const float logit : logits) {
      sum += std::exp(static_cast<long double>(logit));
    }
    const auto chosen = random() % logits.size();
    const TokenLogprobs found = LogprobsOf(logits, static_cast<int32_t>(chosen), 20);
    const auto expected = static_cast<float>(logits[chosen] - std::log(sum));
    EXPECT_NEAR(found.chosen.logprob, expected, 1e-6 * (1 + std::abs(expected)));
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    ASSERT_EQ(found.top.size(), std::min<size_t>(20, ids.size()));
    for (size_t i = 0; i < found.top.size(); ++i) {
      EXPECT_EQ(found.top[i].id, ids[i]);
    }
  }
}

TEST(Logprobs, GiveTiesToTheLowerId) {
  const TokenLogprobs found = LogprobsOf(std::vector<float>(500, -2), 499, 2);
  EXPECT_EQ(found.top[0].id, 0);
  EXPECT_EQ(found.top[1].id, 1);
  EXPECT_NEAR(found.chosen.logprob, -std::log(500), 1e-6);
}

TEST(Logprobs, GiveWhatCannotBeMinusInfinity) {
  const std::vector<float> logits = {0, NAN, -HUGE_VALF, 0};
  EXPECT_EQ(LogprobsOf(logits, 1, 0).chosen.logprob, -HUGE_VALF);
  EXPECT_TRUE(LogprobsOf(logits, 1, 0).top.empty());
  const TokenLogprobs found = LogprobsOf(logits, 2, 20);
  EXPECT_EQ(found.chosen.logprob, -HUGE_VALF);
  ASSERT_EQ(found.top.size(), 2U);
  EXPECT_NEAR(found.top[1].logprob, -std::log(2), 1e-7);
  EXPECT_NEAR(LogprobsOf(std::vector<float>{HUGE_VALF, 3, HUGE_VALF}, 0, 0).chosen.logprob,
              -std::log(2), 1e-7);
  EXPECT_EQ(LogprobsOf(std::vector<float>{HUGE_VALF, 3}, 1, 0).chosen.logprob, -HUGE_VALF);
}

}  // namespace
}  // namespace cachalot
