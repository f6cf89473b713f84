#include "sampling/seed.h"

#include <gtest/gtest.h>

#include <set>

namespace cachalot {
namespace {

TEST(UniformAt, IsEvenOverSteps) {
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 10000;
  for (int step = 0; step < kDraws; ++step) {
    const double value = UniformAt(3, step);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.012);  // four deviations
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.012);
}

TEST(ChoiceSeed, KeepsTheSeedOfTheFirstAndTellsTheOthersApart) {
  EXPECT_EQ(ChoiceSeed(17, 0), 17U);
  EXPECT_EQ(ChoiceSeed(17, 3), ChoiceSeed(17, 3));
  std::set<uint64_t> seeds;
  std::set<double> draws;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (int64_t choice = 0; choice < 128; ++choice) {
      seeds.insert(ChoiceSeed(seed, choice));
      for (int64_t step = 0; step < 4; ++step) {
        draws.insert(UniformAt(ChoiceSeed(seed, choice), step));
      }
    }
  }
  EXPECT_EQ(seeds.size(), 50U * 128);
  EXPECT_EQ(draws.size(), 50U * 128 * 4);
}

}  // namespace
}  // namespace cachalot
