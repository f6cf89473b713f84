#include "cli/generate_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GenerateResult Small(LineId id) {
  return {std::move(id),
          {{.token_ids = {5, 6}, .text = "ab", .finish_reason = ResultEnd::kLength}},
          {.prompt_tokens = 10, .completion_tokens = 2, .cached_tokens = 8}};
}

constexpr const char* kSmallUsage =
    R"("usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,)"
    R"("prompt_tokens_details":{"cached_tokens":8}}})"
    "\n";

TEST(ResultLine, IsFlatForOneChoice) {
  EXPECT_EQ(ResultLine(Small(LineId("a"))),
            std::string(R"({"id":"a","token_ids":[5,6],"text":"ab","finish_reason":"length",)") +
                kSmallUsage);
}

TEST(ResultLine, ListsSeveralChoices) {
  GenerateResult result = Small(LineId(int64_t{-3}));
  result.choices.push_back({.finish_reason = ResultEnd::kDeadline});
  EXPECT_EQ(ResultLine(result),
            std::string(R"({"id":-3,"choices":[)"
                        R"({"index":0,"token_ids":[5,6],"text":"ab","finish_reason":"length"},)"
                        R"({"index":1,"token_ids":[],"finish_reason":"deadline"}],)") +
                kSmallUsage);
}

TEST(ResultLine, SaysWhatWentWrong) {
  GenerateResult result = Small(LineId("a"));
  result.choices[0].finish_reason = ResultEnd::kError;
  result.choices[0].error = "no \"room\"";
  EXPECT_THAT(ResultLine(result), HasSubstr(R"("finish_reason":"error","error":"no \"room\"",)"));
}

TEST(ResultLine, HasLogprobsWithAndWithoutText) {
  GenerateResult result = Small(LineId("a"));
  result.choices[0].logprobs = {
      {{{5, -0.5F, "a\xE2"}, {{7, -0.25F, "c"}, {5, -0.5F, "a\xE2"}}}, {{6, -HUGE_VALF, {}}, {}}}};
  EXPECT_THAT(ResultLine(result),
              HasSubstr("\"logprobs\":{\"content\":["
                        "{\"token_id\":5,\"token\":\"a\uFFFD\",\"logprob\":-0.5,\"top_logprobs\":["
                        "{\"token_id\":7,\"token\":\"c\",\"logprob\":-0.25},"
                        "{\"token_id\":5,\"token\":\"a\uFFFD\",\"logprob\":-0.5}]},"
                        "{\"token_id\":6,\"logprob\":-9999.0,\"top_logprobs\":[]}]},\"usage\""));
}

TEST(ResultLine, KeepsToOneLineOfUtf8) {
  GenerateResult result = Small(LineId("new\nline"));
  result.choices[0].text = "\n\xFF\r";
  EXPECT_THAT(ResultLine(result), HasSubstr("\"text\":\"\\n\uFFFD\\r\""));
  EXPECT_THAT(ResultLine(result), HasSubstr("{\"id\":\"new\\nline\","));
}

TEST(Finish, ReasonsHaveTheirNames) {
  EXPECT_EQ(ResultEndText(ResultEnd::kStop), "stop");
  EXPECT_EQ(ResultEndText(ResultEnd::kLength), "length");
  EXPECT_EQ(ResultEndText(ResultEnd::kCancelled), "cancelled");
  EXPECT_EQ(ResultEndText(ResultEnd::kDeadline), "deadline");
  EXPECT_EQ(ResultEndText(ResultEnd::kError), "error");
}

std::string TwoLines() {
  GenerateResult several = Small(LineId("b"));
  several.choices.push_back({.finish_reason = ResultEnd::kError});
  return ResultLine(Small(LineId(int64_t{3}))) + ResultLine(several);
}

TEST(ResumeState, HasTheIdsThatAreDone) {
  const ResumeState state = ParseResumeState(TwoLines(), "out.jsonl").value();
  EXPECT_THAT(state.done, ElementsAre(LineId(int64_t{3}), LineId("b")));
  EXPECT_EQ(state.whole_bytes, static_cast<int64_t>(TwoLines().size()));
}

TEST(ResumeState, CutsATornLineOffWhereverItIsTorn) {
  const std::string whole = TwoLines();
  const std::string torn = ResultLine(Small(LineId("torn")));
  for (size_t length = 0; length < torn.size(); ++length) {
    const auto state = ParseResumeState(whole + torn.substr(0, length), "out.jsonl");
    ASSERT_TRUE(state) << length;
    ASSERT_EQ(state->done.size(), 2U) << length;
    ASSERT_EQ(state->whole_bytes, static_cast<int64_t>(whole.size())) << length;
  }
  EXPECT_EQ(ParseResumeState(whole + torn, "out.jsonl")->done.size(), 3U);
}

TEST(ResumeState, RefusesWhatIsNotAResult) {
  for (const char* line :
       {"\n", "hello\n", "hello", "{}\n", "[1]\n", "{\"id\":1}\n", "{\"id\":1,\"prompt\":\"a\"}\n",
        "{\"id\":1.5,\"finish_reason\":\"stop\",\"usage\":{}}\n",
        "{\"id\":1,\"finish_reason\":\"tired\",\"usage\":{}}\n",
        "{\"id\":1,\"finish_reason\":\"stop\"}\n", "{\"id\":1,\"choices\":[1],\"usage\":{}}\n",
        "{\"id\":1,\"choices\":{},\"usage\":{}}\n", "{\"id\":1,\"finish_rea\n"}) {
    const auto state = ParseResumeState(TwoLines() + line, "out.jsonl");
    ASSERT_FALSE(state) << line;
    EXPECT_THAT(state.error().message,
                HasSubstr("out.jsonl: line 3 is not a result of cachalot generate"));
  }
}

TEST(ResumeState, IsEmptyWithoutAFile) {
  const ResumeState none = ReadResumeState("/no/such/file").value();
  EXPECT_TRUE(none.done.empty());
  EXPECT_EQ(none.whole_bytes, 0);
  EXPECT_FALSE(ReadResumeState("/tmp"));
  const std::string path = testing::TempDir() + "results.jsonl";
  std::ofstream(path) << TwoLines() << "{\"id";
  EXPECT_EQ(ReadResumeState(path)->done.size(), 2U);
}

}  // namespace
}  // namespace cachalot
