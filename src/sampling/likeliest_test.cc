#include "sampling/likeliest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace cachalot {
namespace {

TEST(ArgMax, TakesTheLowerIdOfATieAndNeverNaN) {
  EXPECT_EQ(ArgMax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{NAN, -5, NAN}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{NAN, -HUGE_VALF}), 0);
  EXPECT_EQ(ArgMax(std::vector<float>{}), 0);
}

TEST(ArgMax, FindsTheBestWhereverItStands) {
  for (size_t size = 1; size < 70; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -3);
      logits[at] = -2;
      logits.back() = -2;  // a tie that it must win
      EXPECT_EQ(ArgMax(logits), static_cast<int32_t>(at)) << size;
    }
  }
}

TEST(FindLikeliest, AgreesWithSorting) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<float> logits(random() % 2000);
    for (float& value : logits) {
      value = static_cast<float>(random() % 50);  // many ties
      value = random() % 20 == 0 ? NAN : random() % 20 == 0 ? -HUGE_VALF : value;
    }
    std::vector<Candidate> sorted;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > -HUGE_VALF) {
        sorted.push_back({static_cast<int32_t>(i), logits[i]});
      }
    }
    std::sort(sorted.begin(), sorted.end(), IsLikelier);
    const size_t count = random() % 100;
    sorted.resize(std::min(sorted.size(), count));
    std::vector<Candidate> best;
    FindLikeliest(logits, static_cast<int64_t>(count), &best);
    std::sort(best.begin(), best.end(), IsLikelier);
    ASSERT_EQ(best.size(), sorted.size());
    for (size_t i = 0; i < best.size(); ++i) {
      ASSERT_EQ(best[i].id, sorted[i].id);
      ASSERT_EQ(best[i].logit, sorted[i].logit);
    }
  }
}

}  // namespace
}  // namespace cachalot
