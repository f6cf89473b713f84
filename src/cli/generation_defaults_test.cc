#include "cli/generation_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cachalot {
namespace {

std::string ErrorOf(const std::string& text) {
  return ParseGenerationDefaults(text, "g.json").error().message;
}

TEST(GenerationDefaults, ReadsWhatIsThere) {
  const auto defaults = *ParseGenerationDefaults(
      R"({"do_sample":true,"temperature":0.7,"top_p":0.95,"top_k":20,"eos_token_id":1})", "g.json");
  EXPECT_EQ(defaults.sampling.temperature, 0.7);
  EXPECT_EQ(defaults.sampling.top_p, 0.95);
  EXPECT_EQ(defaults.sampling.top_k, 20);
  EXPECT_THAT(defaults.stop_ids, testing::ElementsAre(1));
}

TEST(GenerationDefaults, TakesListsOfStopIdsAndGreedyFiles) {
  const auto defaults =
      *ParseGenerationDefaults(R"({"do_sample":false,"eos_token_id":[1,7]})", "g.json");
  EXPECT_EQ(defaults.sampling.temperature, 0);
  EXPECT_THAT(defaults.stop_ids, testing::ElementsAre(1, 7));
}

TEST(GenerationDefaults, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(ErrorOf("[]"), "g.json: expected a JSON object");
  EXPECT_EQ(ErrorOf(R"({"temperature":"hot"})"),
            "g.json: temperature is \"hot\", expected a number");
  EXPECT_EQ(ErrorOf(R"({"top_p":2})"), "g.json: top_p is 2, expected 0 to 1");
  EXPECT_EQ(ErrorOf(R"({"top_k":-1})"), "g.json: top_k is -1, expected 0 or more");
  EXPECT_EQ(ErrorOf(R"({"eos_token_id":-1})"), "g.json: eos_token_id is -1, expected a token id");
  EXPECT_EQ(ErrorOf(R"({"eos_token_id":["x"]})"),
            "g.json: eos_token_id is \"x\", expected a token id");
}

TEST(GenerationDefaults, AreNeutralWithoutAFile) {
  const auto defaults = *LoadGenerationDefaults("/nonexistent");
  EXPECT_EQ(defaults.sampling.temperature, 1);
  EXPECT_TRUE(defaults.stop_ids.empty());
}

}  // namespace
}  // namespace cachalot
