#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace cachalot {
namespace {

using Row = std::vector<float>;

Row Tenths() { return {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)}; }

int32_t SampleOne(Row logits, const SamplingParams& params, int64_t step = 0,
                  const TokenHistory& history = {}) {
  return Sampler().Sample(logits, params, history, step);
}

std::map<int32_t, double> Frequencies(const SamplingParams& params, int draws = 20000) {
  Sampler sampler;
  Row logits = Tenths();
  std::map<int32_t, double> counts;
  for (int step = 0; step < draws; ++step) {
    counts[sampler.Sample(logits, params, {}, step)] += 1.0 / draws;
  }
  return counts;
}

TEST(Sampler, IsGreedyAtTemperatureZero) {
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(SampleOne(Tenths(), {.temperature = 0, .seed = 3}, step), 1);
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
  Row logits = Tenths();
  const SamplingParams params = {.seed = 42};
  std::vector<int32_t> forwards;
  for (int step = 0; step < 100; ++step) {
    forwards.push_back(one.Sample(logits, params, {}, step));
  }
  for (int step = 99; step >= 0; --step) {
    EXPECT_EQ(other.Sample(logits, params, {}, step), forwards[static_cast<size_t>(step)]);
  }
  int differ = 0;
  for (int step = 0; step < 100; ++step) {
    differ += one.Sample(logits, {.seed = 43}, {}, step) != forwards[static_cast<size_t>(step)];
  }
  EXPECT_GT(differ, 30);
}

TEST(Sampler, NeverDrawsMinusInfinityOrNaN) {
  const Row logits = {-HUGE_VALF, 0, NAN, 0};
  for (int step = 0; step < 200; ++step) {
    EXPECT_EQ(SampleOne(logits, {.seed = 5}, step) % 2, 1);
    EXPECT_EQ(SampleOne(logits, {.top_p = 0.9, .seed = 5}, step) % 2, 1);
    EXPECT_EQ(SampleOne(logits, {.top_k = 3, .seed = 5}, step) % 2, 1);
  }
}

// The definition: everything sorted, nothing clever. Order is of ids where all are kept.
int32_t NaiveSample(const Row& logits, const SamplingParams& params, int64_t step) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -HUGE_VALF) {
      ids.push_back(static_cast<int32_t>(i));
    }
  }
  const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  const auto likelier = [&](int32_t a, int32_t b) { return logit(a) > logit(b); };
  const float largest = logit(*std::min_element(ids.begin(), ids.end(), likelier));
  const auto weight = [&](int32_t id) {
    return std::exp((static_cast<double>(logit(id)) - largest) / params.temperature);
  };
  const auto total = [&] {
    double sum = 0;
    for (const int32_t id : ids) {
      sum += weight(id);
    }
    return sum;
  };
  if (params.top_k > 0 || params.top_p < 1 || params.min_p > 0) {
    std::stable_sort(ids.begin(), ids.end(), likelier);
  }
  if (params.top_k > 0) {
    ids.resize(std::min(ids.size(), static_cast<size_t>(params.top_k)));
  }
  if (params.top_p < 1) {
    const double target = params.top_p * total();
    double kept = 0;
    size_t count = 0;
    while (count < ids.size() && (count == 0 || kept < target)) {
      kept += weight(ids[count++]);
    }
    ids.resize(count);
  }
  std::erase_if(ids, [&](int32_t id) { return weight(id) < params.min_p; });
  double left = UniformAt(params.seed, step) * total();
  for (const int32_t id : ids) {
    left -= weight(id);
    if (left < 0) {
      return id;
    }
  }
  return ids.back();
}

TEST(Sampler, AgreesWithTheDefinitionOnRandomRows) {
  std::mt19937 random(7);
  Sampler sampler;
  const auto any_of = [&](std::vector<double> values) { return values[random() % values.size()]; };
  for (int trial = 0; trial < 3000; ++trial) {
    Row logits(1 + random() % (trial % 10 == 0 ? 5000 : 300));
    std::normal_distribution<float> spread(0, static_cast<float>(any_of({0.1, 1, 5, 30})));
    const bool ties = random() % 3 == 0;
    for (float& value : logits) {
      value = ties ? std::round(spread(random)) : spread(random);
    }
    // Never all of them: the definition has nothing to say then.
    for (size_t i = random() % logits.size(); i > 0; i -= 1 + i / 4) {
      logits[i] = any_of({0, 1}) == 0 ? -HUGE_VALF : NAN;
    }
    SamplingParams params = {.temperature = any_of({0.01, 0.6, 1, 2, 100}),
                             .top_k = static_cast<int64_t>(any_of({0, 0, 2, 50, 999})),
                             .top_p = any_of({0, 0.1, 0.5, 0.95, 0.999, 1, 1}),
                             .min_p = any_of({0, 0, 0.05, 0.5, 1}),
                             .seed = random()};
    params.top_k = std::min(params.top_k, static_cast<int64_t>(logits.size()) - 1);
    ASSERT_EQ(sampler.Sample(logits, params, {}, trial), NaiveSample(logits, params, trial))
        << "row of " << logits.size() << ", temperature " << params.temperature << ", top_k "
        << params.top_k << ", top_p " << params.top_p << ", min_p " << params.min_p;
  }
}

TEST(Sampler, DrawsAWideRowInProportion) {
  // Pearson's statistic of 64 classes: mean 63, deviation 11.
  constexpr int kClasses = 64;
  constexpr int kDraws = 20000;
  std::mt19937 random(11);
  Row logits(kClasses);
  for (float& value : logits) {
    value = static_cast<float>(random() % 1000) / 1000;
  }
  for (const SamplingParams& params :
       {SamplingParams{.seed = 21}, SamplingParams{.top_p = 0.9999, .seed = 22}}) {
    double total = 0;
    for (const float value : logits) {
      total += std::exp(value);
    }
    Sampler sampler;
    std::vector<int> counts(kClasses);
    for (int step = 0; step < kDraws; ++step) {
      ++counts[static_cast<size_t>(sampler.Sample(logits, params, {}, step))];
    }
    double statistic = 0;
    for (size_t i = 0; i < kClasses; ++i) {
      const double expected = kDraws * std::exp(logits[i]) / total;
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_GT(statistic, 63 - 4 * 11);
    EXPECT_LT(statistic, 63 + 4 * 11);
  }
}

TEST(Sampler, TakesTheLowerIdsOfTiesThroughTopK) {
  for (int step = 0; step < 100; ++step) {
    EXPECT_LT(SampleOne(Row(1000, 1.5F), {.top_k = 3, .seed = 1}, step), 3);
    EXPECT_LT(SampleOne(Row(1000, 1.5F), {.top_p = 0.003, .seed = 1}, step), 3);
  }
}

TEST(Sampler, TakesInfinityForTheLikeliest) {
  const Row logits = {100, HUGE_VALF, -5, HUGE_VALF};
  std::map<int32_t, int> counts;
  for (int step = 0; step < 100; ++step) {
    ++counts[SampleOne(logits, {}, step)];
    ++counts[SampleOne(logits, {.min_p = 0.01}, step)];
    ++counts[SampleOne(logits, {.top_k = 3, .top_p = 0.9}, step)];
  }
  EXPECT_EQ(counts[1] + counts[3], 300);
  EXPECT_GT(counts[1], 90);
  EXPECT_GT(counts[3], 90);
}

TEST(Sampler, ManagesTheExtremesOfTemperature) {
  const Row logits = {0, 1e30F, -1e30F, 1};
  EXPECT_EQ(SampleOne(logits, {.temperature = 1e-300}), 1);
  EXPECT_EQ(SampleOne(logits, {.temperature = 100}), 1);
  const auto flat = Frequencies({.temperature = 100, .seed = 9});
  EXPECT_NEAR(flat.at(0), 0.25, 0.015);
  EXPECT_NEAR(flat.at(1), 0.25, 0.015);
}

SamplingParams Banning(std::vector<int32_t> ids, SamplingParams params = {}) {
  params.banned_ids = std::make_shared<const std::vector<int32_t>>(std::move(ids));
  return params;
}

TEST(Sampler, NeverDrawsBannedIds) {
  for (int step = 0; step < 100; ++step) {
    EXPECT_EQ(SampleOne(Tenths(), Banning({0, 1, 3}), step), 2);
    EXPECT_EQ(SampleOne(Tenths(), Banning({1, 1, 3, 2}, {.temperature = 0}), step), 0);
  }
  // A ban outdoes a bias.
  EXPECT_NE(SampleOne(Tenths(), Banning({0}, {.temperature = 0, .logit_bias = {{0, 100}}})), 0);
}

TEST(Sampler, TakesTokenZeroWhereNothingIsLeft) {
  for (const SamplingParams& params :
       {SamplingParams{}, {.temperature = 0}, {.top_k = 2}, {.top_p = 0.5}, {.min_p = 0.5}}) {
    EXPECT_EQ(SampleOne(Tenths(), Banning({0, 1, 2, 3}, params)), 0);
    EXPECT_EQ(SampleOne(Row(40, NAN), params), 0);
  }
}

TEST(Sampler, HoldsStopsBackUntilTheAnswerIsLongEnough) {
  const SamplingParams params = {.temperature = 0, .stop_ids = {1, 3}, .min_new_tokens = 2};
  EXPECT_EQ(SampleOne(Tenths(), params, 0), 2);
  EXPECT_EQ(SampleOne(Tenths(), params, 1), 2);
  EXPECT_EQ(SampleOne(Tenths(), params, 2), 1);
}

TEST(Sampler, LeavesWhatIsAllowed) {
  constexpr uint64_t kFirstAndThird[] = {0b0101};
  Sampler sampler;
  Row logits = Tenths();
  std::map<int32_t, double> counts;
  for (int step = 0; step < 20000; ++step) {
    counts[sampler.Sample(logits, {.seed = 4}, {}, step, kFirstAndThird)] += 1.0 / 20000;
  }
  EXPECT_EQ(logits, Tenths());
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts[0], 0.1 / 0.3, 0.015);
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 0}, {}, 0, kFirstAndThird), 2);
}

TEST(Sampler, TakesAStopTooEarlyWhereNothingElseIsAllowed) {
  constexpr uint64_t kSecond[] = {0b0010};
  constexpr uint64_t kSecondAndThird[] = {0b0110};
  const SamplingParams params = {.temperature = 0, .stop_ids = {1}, .min_new_tokens = 5};
  Row logits = Tenths();
  EXPECT_EQ(Sampler().Sample(logits, params, {}, 0, kSecond), 1);
  EXPECT_EQ(Sampler().Sample(logits, params, {}, 0, kSecondAndThird), 2);
  EXPECT_EQ(logits, Tenths());
}

TEST(Sampler, GivesTheRowBackAsItWas) {
  SamplingParams params = Banning(
      {1, 4}, {.frequency_penalty = 1, .repetition_penalty = 1.5, .logit_bias = {{1, 2}, {1, 3}}});
  params.stop_ids = {1, 2};
  params.min_new_tokens = 9;
  TokenHistory history(params, std::vector<int32_t>{1, 2});
  history.Add(0);
  Row logits = {1, 2, 3, 4, 5};
  Sampler().Sample(logits, params, history, 0);
  EXPECT_EQ(logits, (Row{1, 2, 3, 4, 5}));
}

// Which token is the best says how far another was pushed: token 0 at `rival` against token 1.
bool BeatsRival(float logit, float rival, SamplingParams params, const TokenHistory& history) {
  params.temperature = 0;
  return SampleOne({logit, rival}, params, 0, history) == 0;
}

TEST(Sampler, PenalisesByCountAndByPresence) {
  const SamplingParams params = {.frequency_penalty = 0.5, .presence_penalty = 0.25};
  TokenHistory history(params, std::vector<int32_t>{0, 0, 0});
  EXPECT_TRUE(BeatsRival(4, 3.99F, params, history));  // the prompt counts nothing
  for (int i = 0; i < 3; ++i) {
    history.Add(0);
  }
  EXPECT_TRUE(BeatsRival(4, 2.24F, params, history));  // 4 - 3 * 0.5 - 0.25 = 2.25
  EXPECT_FALSE(BeatsRival(4, 2.26F, params, history));
}

TEST(Sampler, PenalisesRepetitionOfPromptAndAnswer) {
  const SamplingParams params = {.repetition_penalty = 2};
  const TokenHistory in_prompt(params, std::vector<int32_t>{0});
  TokenHistory in_answer(params, {});
  in_answer.Add(0);
  in_answer.Add(0);  // once is enough
  for (const TokenHistory* history : {&in_prompt, static_cast<const TokenHistory*>(&in_answer)}) {
    EXPECT_TRUE(BeatsRival(4, 1.99F, params, *history));
    EXPECT_FALSE(BeatsRival(4, 2.01F, params, *history));
    EXPECT_TRUE(BeatsRival(-4, -8.01F, params, *history));
    EXPECT_FALSE(BeatsRival(-4, -7.99F, params, *history));
  }
}

TEST(Sampler, DividesThenSubtractsThenAddsTheBias) {
  const SamplingParams params = {
      .presence_penalty = 1, .repetition_penalty = 2, .logit_bias = {{0, 10}}};
  TokenHistory history(params, {});
  history.Add(0);
  EXPECT_TRUE(BeatsRival(4, 10.99F, params, history));  // 4 / 2 - 1 + 10 = 11
  EXPECT_FALSE(BeatsRival(4, 11.01F, params, history));
}

}  // namespace
}  // namespace cachalot
