#include "sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cachalot {
namespace {

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
  EXPECT_EQ(message({.frequency_penalty = 2.5}), "frequency_penalty is 2.5, expected -2 to 2");
  EXPECT_EQ(message({.presence_penalty = -3}), "presence_penalty is -3, expected -2 to 2");
  EXPECT_EQ(message({.repetition_penalty = 0}),
            "repetition_penalty is 0, expected above 0 and at most 10");
  EXPECT_EQ(message({.repetition_penalty = NAN}),
            "repetition_penalty is nan, expected above 0 and at most 10");
  EXPECT_EQ(message({.logit_bias = {{3, 1}, {7, 101}}}),
            "logit_bias of token 7 is 101, expected -100 to 100");
  EXPECT_EQ(message({.logit_bias = std::vector<LogitBias>(1025, {0, 0})}),
            "logit_bias has 1025 tokens, expected at most 1024");
  EXPECT_EQ(message({.min_new_tokens = -1}), "min_new_tokens is -1, expected 0 or more");
}

TEST(SamplingParams, TakesTheBoundsThemselves) {
  EXPECT_TRUE(CheckSamplingParams({.temperature = 100,
                                   .top_p = 0,
                                   .min_p = 1,
                                   .frequency_penalty = -2,
                                   .presence_penalty = 2,
                                   .repetition_penalty = 10,
                                   .logit_bias = std::vector<LogitBias>(1024, {0, -100})}));
}

TEST(SamplingParams, NamesIdsOutsideTheVocabulary) {
  const auto message = [](const SamplingParams& params) {
    return CheckSamplingIds(params, 100).error().message;
  };
  EXPECT_TRUE(CheckSamplingIds({.logit_bias = {{99, 1}}, .stop_ids = {0}}, 100));
  EXPECT_EQ(message({.logit_bias = {{100, 1}}}), "logit_bias names token 100, expected 0 to 99");
  EXPECT_EQ(message({.stop_ids = {-1}}), "stop_ids names token -1, expected 0 to 99");
  SamplingParams banning;
  banning.banned_ids = std::make_shared<const std::vector<int32_t>>(1, 100);
  EXPECT_EQ(message(banning), "banned_ids names token 100, expected 0 to 99");
}

}  // namespace
}  // namespace cachalot
