#include "sampling/token_history.h"

#include <gtest/gtest.h>

#include <map>

namespace cachalot {
namespace {

using Counts = std::map<int32_t, int32_t>;

Counts CountsOf(const TokenHistory& history) {
  Counts counts;
  for (const auto& [id, in_answer] : history.counts()) {
    EXPECT_TRUE(counts.emplace(id, in_answer).second) << id << " stands twice";
  }
  return counts;
}

const std::vector<int32_t> kPrompt = {5, 2, 5, 9};

TEST(TokenHistory, CountsTheAnswerBesideThePrompt) {
  TokenHistory history({.repetition_penalty = 1.1}, kPrompt);
  for (const int32_t id : {7, 5, 7, 0}) {
    history.Add(id);
  }
  EXPECT_EQ(CountsOf(history), (Counts{{0, 1}, {2, 0}, {5, 1}, {7, 2}, {9, 0}}));
}

TEST(TokenHistory, LeavesThePromptOutWhereNothingAsksForIt) {
  for (const SamplingParams& params :
       {SamplingParams{.frequency_penalty = -1}, SamplingParams{.presence_penalty = 1}}) {
    TokenHistory history(params, kPrompt);
    history.Add(5);
    EXPECT_EQ(CountsOf(history), (Counts{{5, 1}}));
  }
}

TEST(TokenHistory, KeepsNothingWithoutPenalties) {
  TokenHistory history({.logit_bias = {{1, 1}}}, kPrompt);
  history.Add(5);
  EXPECT_TRUE(history.counts().empty());
}

}  // namespace
}  // namespace cachalot
