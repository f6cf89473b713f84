#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace cachalot {
namespace {

const std::vector<float> kLogits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};

std::map<int32_t, double> Frequencies(const SamplingParams& params, int draws = 20000) {
  Sampler sampler;
  std::map<int32_t, double> counts;
  for (int step = 0; step < draws; ++step) {
    counts[sampler.Sample(kLogits, params, step)] += 1.0 / draws;
  }
  return counts;
}

TEST(ArgMax, TakesTheLowerIdOfATieAndNeverNaN) {
  EXPECT_EQ(ArgMax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(ArgMax(std::vector<float>{NAN, -5, NAN}), 1);
}

TEST(Sampler, IsGreedyAtTemperatureZero) {
  Sampler sampler;
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(sampler.Sample(kLogits, {.temperature = 0, .seed = 3}, step), 1);
  }
}

TEST(Sampler, DrawsInProportion) {
  const auto found = Frequencies({.seed = 1});
  EXPECT_NEAR(found.at(0), 0.1, 0.015);
  EXPECT_NEAR(found.at(1), 0.4, 0.015);
  EXPECT_NEAR(found.at(2), 0.2, 0.015);
  EXPECT_NEAR(found.at(3), 0.3, 0.015);
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  // At temperature 0.5 probabilities are squared before normalising.
  const auto found = Frequencies({.temperature = 0.5, .seed = 2});
  EXPECT_NEAR(found.at(1), 0.16 / 0.30, 0.015);
  EXPECT_NEAR(found.at(0), 0.01 / 0.30, 0.01);
}

TEST(Sampler, TopKKeepsTheMostLikely) {
  const auto found = Frequencies({.top_k = 2, .seed = 3});
  EXPECT_EQ(found.size(), 2U);
  EXPECT_NEAR(found.at(1), 0.4 / 0.7, 0.015);
  EXPECT_NEAR(found.at(3), 0.3 / 0.7, 0.015);
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(Frequencies({.top_p = 0.39}).size(), 1U);
  EXPECT_EQ(Frequencies({.top_p = 0.6}).size(), 2U);
  EXPECT_EQ(Frequencies({.top_p = 0.75}).size(), 3U);
  EXPECT_EQ(Frequencies({.top_p = 0}).size(), 1U);
}

TEST(Sampler, MinPKeepsThoseNearTheBest) {
  EXPECT_EQ(Frequencies({.min_p = 0.7}).size(), 2U);
  EXPECT_EQ(Frequencies({.min_p = 0.45}).size(), 3U);
  EXPECT_EQ(Frequencies({.min_p = 1}).size(), 1U);
}

TEST(Sampler, DependsOnSeedAndStepAlone) {
  Sampler one;
  Sampler other;
  const SamplingParams params = {.seed = 42};
  std::vector<int32_t> forwards;
  for (int step = 0; step < 100; ++step) {
    forwards.push_back(one.Sample(kLogits, params, step));
  }
  for (int step = 99; step >= 0; --step) {
    EXPECT_EQ(other.Sample(kLogits, params, step), forwards[static_cast<size_t>(step)]);
  }
  int differ = 0;
  for (int step = 0; step < 100; ++step) {
    differ += one.Sample(kLogits, {.seed = 43}, step) != forwards[static_cast<size_t>(step)];
  }
  EXPECT_GT(differ, 30);
}

TEST(Sampler, NeverDrawsMinusInfinity) {
  Sampler sampler;
  const std::vector<float> logits = {-HUGE_VALF, 0, -HUGE_VALF, 0};
  for (int step = 0; step < 200; ++step) {
    EXPECT_EQ(sampler.Sample(logits, {.seed = 5}, step) % 2, 1);
  }
}

TEST(SamplingParams, NamesWhatIsOutOfBounds) {
  EXPECT_TRUE(CheckSamplingParams({}));
  const auto message = [](const SamplingParams& params) {
    return CheckSamplingParams(params).error().message;
  };
  EXPECT_EQ(message({.temperature = -1}), "temperature is -1, expected 0 to 100");
  EXPECT_EQ(message({.temperature = NAN}), "temperature is nan, expected 0 to 100");
  EXPECT_EQ(message({.top_k = -2}), "top_k is -2, expected 0 or more");
  EXPECT_EQ(message({.top_p = 1.5}), "top_p is 1.5, expected 0 to 1");
  EXPECT_EQ(message({.min_p = 2}), "min_p is 2, expected 0 to 1");
}

}  // namespace
}  // namespace cachalot
