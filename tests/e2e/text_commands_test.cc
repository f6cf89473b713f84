// tokenize, detokenize, render, parse, inspect and synth, as a shell sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"
#include "io/json.h"

namespace cachalot::e2e {
namespace {

using testing::HasSubstr;

const std::string kCalf = InSource("models/calf");

TEST(Tokenize, GoesThereAndBackInJsonLines) {
  const std::string texts = "\"The capital of France\"\n\"\"\n\"caf\u00e9 \\u4e2d\\n\"\n";
  const Outcome ids = Cachalot({"tokenize", "-m", kCalf, "--jsonl"}, texts);
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  const Outcome back =
      Cachalot({"detokenize", "--tokenizer", kCalf + "/tokenizer.json", "--jsonl"}, ids.out);
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(back.out, "\"The capital of France\"\n\"\"\n\"caf\u00e9 \u4e2d\\n\"\n");
}

TEST(Tokenize, GoesThereAndBackInPlainText) {
  const Outcome ids = Cachalot({"tokenize", "-m", kCalf}, "Say this again: 0 4 5");
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_EQ(Cachalot({"detokenize", "-m", kCalf}, ids.out).out, "Say this again: 0 4 5");
}

TEST(Tokenize, TakesSpecialTokensForTextWhenAsked) {
  const Outcome special = Cachalot({"tokenize", "-m", kCalf, "-p", "<think>"});
  const Outcome plain = Cachalot({"tokenize", "-m", kCalf, "-p", "<think>", "--no_special"});
  EXPECT_THAT(special.out, testing::Not(HasSubstr(" ")));
  EXPECT_THAT(plain.out, HasSubstr(" "));
}

TEST(Tokenize, NamesTheLineThatIsWrong) {
  const Outcome outcome = Cachalot({"tokenize", "-m", kCalf, "--jsonl"}, "\"a\"\n[1]\n");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "cachalot: line 2: expected a JSON string\n");
  const Outcome back = Cachalot({"detokenize", "-m", kCalf, "--jsonl"}, "[1,-4]\n");
  EXPECT_EQ(back.err, "cachalot: line 1: -4 is no token id\n");
}

TEST(Prompt, RendersMessagesInTheCheckpointsFormat) {
  const TempFolder temp;
  WriteAll(temp / "in.json", R"([{"role":"user","content":"Hi"}])");
  const auto render = [&](const char* mode) {
    return Cachalot({"render", "-m", kCalf, "--input", temp / "in.json", "--mode", mode}).out;
  };
  EXPECT_EQ(render("chat"), "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_EQ(render("thinking"), "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><think>");
}

TEST(Prompt, RendersThePublishedVectors) {
  const std::string folder = InSource("../shared/data/encoding");
  if (!Exists(folder)) {
    GTEST_SKIP() << "no ../shared/data/encoding";
  }
  // The wording of the tools block is the checkpoint's; it stands in the first vector.
  const std::string block = ReadAll(folder + "/test_output_1.txt");
  const size_t head = block.find("## Tools");
  const std::string head_end = "### Available Tool Schemas\n\n";
  const size_t schemas = block.find(head_end) + head_end.size();
  const size_t tail = block.find("\n\nYou MUST strictly", schemas);
  const size_t tail_end = block.find('\n', tail + 2) + 1;
  ASSERT_NE(head, std::string::npos);
  ASSERT_NE(tail, std::string::npos);
  const auto escaped = [](std::string text) {
    for (size_t at = 0; (at = text.find_first_of("{}", at)) != std::string::npos; at += 2) {
      text.insert(at, 1, text[at]);
    }
    return text;
  };
  const TempFolder temp;
  WriteAll(temp / "prompt_format.json",
           DumpJson(Json{
               {"tools_template", escaped(block.substr(head, schemas - head)) + "{tool_schemas}" +
                                      escaped(block.substr(tail, tail_end - tail))},
               {"response_format_template",
                "## Response Format:\n\nYou MUST strictly adhere to the following schema "
                "to reply:\n{schema}"},
               {"reasoning_effort", Json::object()}}));
  for (const char* number : {"1", "2", "3", "4"}) {
    const Outcome outcome = Cachalot({"render", "-m", temp.path(), "--input",
                                      folder + "/test_input_" + number + ".json", "--mode",
                                      std::string(number) == "4" ? "chat" : "thinking"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(outcome.out == ReadAll(folder + "/test_output_" + number + ".txt")) << number;
  }
}

TEST(Prompt, ParsesCompletions) {
  const Outcome outcome = Cachalot({"parse", "-m", kCalf, "--mode", "thinking"},
                                   "Let me see.</think>It is 4.<｜end▁of▁sentence｜>");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json message = *ParseJson(outcome.out, "parse");
  EXPECT_EQ(message["reasoning_content"], "Let me see.");
  EXPECT_EQ(message["content"], "It is 4.");
}

TEST(Inspect, DescribesTheShippedModel) {
  const Outcome outcome =
      Cachalot({"inspect", "-m", kCalf, "--json", "--ctx_size", "4096", "--requests", "3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = *ParseJson(outcome.out, "inspect");
  EXPECT_EQ(json["config"]["layers"], 6);
  EXPECT_EQ(json["cache"]["bytes"].get<int64_t>(),
            3 * json["cache"]["bytes_per_request"].get<int64_t>());
  int64_t bytes = 0;
  for (const Json& part : json["components"]) {
    bytes += part["bytes"].get<int64_t>();
  }
  EXPECT_EQ(bytes, json["weight_bytes"].get<int64_t>());
  EXPECT_GT(json["parameters"].get<int64_t>(), 16'000'000);
  EXPECT_THAT(Cachalot({"inspect", "-m", kCalf, "-c", "4096"}).out, HasSubstr("routed experts"));
}

TEST(Synth, WritesACheckpointThatRuns) {
  const TempFolder temp;
  for (const char* layout : {"native", "bf16", "w8a8"}) {
    const std::string folder = temp / layout;
    const Outcome made =
        Cachalot({"synth", "--shape", "nano", "--layout", layout, "--seed", "7", "-o", folder});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    WriteAll(temp / "ids", std::string(reinterpret_cast<const char*>(ids.data()), 4 * ids.size()));
    const Outcome run =
        Cachalot({"logits", "-m", folder, "--tokens", temp / "ids", "--out", temp / "out"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto logits = ReadArray<float>(temp / "out");
    ASSERT_EQ(logits.size(), 8U * 512);
    for (const float value : logits) {
      ASSERT_LT(std::abs(value), 100);
    }
  }
}

}  // namespace
}  // namespace cachalot::e2e
