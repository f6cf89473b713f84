// `cachalot generate`: a file of requests in, a file of results out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "e2e/program.h"
#include "io/json.h"

namespace cachalot::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kCalf = InSource("models/calf");
const std::string kNano = InSource("tests/golden/native");  // without a tokenizer

class Generate : public testing::Test {
 protected:
  Outcome Run(const std::string& model, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> arguments = {"generate", "-m",       model,   "--input",
                                          input(),    "--output", output()};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Cachalot(arguments);
  }
  void Ask(const std::string& lines) const { WriteAll(input(), lines); }

  // The results by the text of their id; none may stand twice.
  std::map<std::string, Json> Results() const {
    std::istringstream lines(ReadAll(output()));
    std::map<std::string, Json> results;
    for (std::string line; std::getline(lines, line);) {
      Json result = *ParseJson(line, "results");
      const std::string id = result["id"].dump();
      EXPECT_TRUE(results.emplace(id, std::move(result)).second) << line;
    }
    return results;
  }

  std::string input() const { return temp_ / "requests.jsonl"; }
  std::string output() const { return temp_ / "results.jsonl"; }

  TempFolder temp_;
};

// Prompts of ids that share beginnings.
std::string NanoRequests(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    Json ids = Json::array();
    for (int t = 0; t < 20 + i * 37 % 400; ++t) {
      ids.push_back(3 + (t < 200 ? t * t % 240 : (t * 7 + i) % 240));
    }
    const Json line = {{"id", i},          {"token_ids", ids},     {"max_tokens", 5 + i % 7},
                       {"seed", i * 11},   {"temperature", i % 2}, {"logprobs", true},
                       {"top_logprobs", 2}};
    lines += line.dump() + "\n";
  }
  return lines;
}

TEST_F(Generate, AnswersTokenIdsWithoutATokenizerWhateverTheSettings) {
  Ask(NanoRequests(12));
  std::vector<std::string> sorted;
  const std::vector<std::vector<std::string>> settings = {
      {"--max-running", "1", "--no-prefix-cache", "--graph", "off"},
      {"--max-running", "5", "--chunked-prefill-size", "128"},
      {"--max-running", "5", "--chunked-prefill-size", "128", "--no-prefix-cache", "--state",
       "paged"},
      {"--max-running", "12", "--host-cache-bytes", "64M", "--disk-cache", temp_ / "disk"},
      {"--max-running", "12", "--host-cache-bytes", "64M", "--disk-cache", temp_ / "disk"}};
  std::map<std::string, Json> first;
  int64_t cached = 0;
  for (const auto& flags : settings) {
    std::filesystem::remove(output());
    const Outcome outcome = Run(kNano, flags);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    std::map<std::string, Json> results = Results();
    ASSERT_EQ(results.size(), 12U);
    cached = 0;
    for (auto& [id, result] : results) {
      EXPECT_FALSE(result.contains("text"));
      const Json& usage = result["usage"];
      EXPECT_EQ(usage["completion_tokens"], result["token_ids"].size());
      EXPECT_EQ(usage["total_tokens"],
                usage["prompt_tokens"].get<int64_t>() + usage["completion_tokens"].get<int64_t>());
      cached += usage["prompt_tokens_details"]["cached_tokens"].get<int64_t>();
      result.erase("usage");
    }
    if (first.empty()) {
      EXPECT_EQ(cached, 0);
      first = std::move(results);
    } else {
      EXPECT_EQ(results, first) << flags.back();
    }
  }
  EXPECT_GT(cached, 12 * 100);  // the second run with a disk found the first one's pages
}

TEST_F(Generate, KnowsPromptsMessagesAndSamplingFields) {
  Ask(R"({"id": "chat", "messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}
{"id": "stop", "messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0, "stop": " of"}
{"id": "short", "messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0, "max_tokens": 3}
{"id": "two", "prompt": "The capital of", "n": 2, "seed": 5, "max_tokens": 4, "logprobs": true, "top_logprobs": 1}
{"id": "echo", "prompt": "The capital of", "echo": true, "temperature": 0, "max_tokens": 2, "logprobs": 0}
{"id": "late", "prompt": "Once", "timeout": 1e-9, "max_tokens": 4}
{"id": "long", "prompt": "Once", "max_tokens": 4, "min_tokens": 4, "logit_bias": {"5": -100}, "frequency_penalty": 0.5}
)");
  const Outcome outcome = Run(kCalf);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::map<std::string, Json> results = Results();
  ASSERT_EQ(results.size(), 7U);
  EXPECT_EQ(results["\"chat\""]["text"], "The capital of France is Paris.");
  EXPECT_EQ(results["\"chat\""]["finish_reason"], "stop");
  EXPECT_EQ(results["\"stop\""]["text"], "The capital");
  EXPECT_EQ(results["\"stop\""]["finish_reason"], "stop");
  EXPECT_EQ(results["\"short\""]["finish_reason"], "length");
  EXPECT_EQ(results["\"short\""]["token_ids"].size(), 3U);
  const Json& two = results["\"two\""];
  ASSERT_EQ(two["choices"].size(), 2U);
  EXPECT_NE(two["choices"][0]["token_ids"], two["choices"][1]["token_ids"]);
  EXPECT_EQ(two["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 1U);
  EXPECT_EQ(two["usage"]["completion_tokens"], 8);
  const Json& echo = results["\"echo\""];
  EXPECT_THAT(echo["text"].get<std::string>(), testing::StartsWith("The capital of"));
  // All but the prompt's first token have one.
  EXPECT_EQ(echo["logprobs"]["content"].size(), echo["token_ids"].size() - 1);
  EXPECT_EQ(results["\"late\""]["finish_reason"], "deadline");
  EXPECT_EQ(results["\"long\""]["token_ids"].size(), 4U);
}

TEST_F(Generate, GoesOnWhereAKilledRunStopped) {
  Ask(NanoRequests(40));
  const std::string shell =
      "cachalot=\"$0\"; \"$cachalot\" generate -m \"$1\" --input \"$2\" "
      "--output \"$3\" & pid=$!; sleep \"$4\"; kill -9 $pid; wait $pid";
  ASSERT_EQ(Run(kNano).exit_code, 0);
  const std::map<std::string, Json> whole = Results();
  ASSERT_EQ(whole.size(), 40U);
  std::filesystem::remove(output());
  for (const char* seconds : {"0.1", "0.3", "0.2", "0.5"}) {
    RunTool({"sh", "-c", shell, CACHALOT_PROGRAM, kNano, input(), output(), seconds});
  }
  // As if a kill had torn the last line.
  WriteAll(output(), ReadAll(output()) + "{\"id\": 39, \"token_i");
  const Outcome outcome = Run(kNano);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::map<std::string, Json> results = Results();
  ASSERT_EQ(results.size(), 40U);
  for (const auto& [id, result] : whole) {
    EXPECT_EQ(results[id]["token_ids"], result["token_ids"]) << id;
  }
  // Nothing is left to do.
  const std::string before = ReadAll(output());
  EXPECT_EQ(Run(kNano).exit_code, 0);
  EXPECT_EQ(ReadAll(output()), before);
}

TEST_F(Generate, AnswersWhatCannotRunWithAnError) {
  Json many = Json::array();
  for (int i = 0; i < 400; ++i) {
    many.push_back(5);
  }
  Ask("{\"id\": 1, \"token_ids\": " + many.dump() +
      "}\n{\"id\": 2, \"token_ids\": [5, 6], \"max_tokens\": 2, \"temperature\": 0}\n");
  const Outcome outcome = Run(kNano, {"--context", "300"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::map<std::string, Json> results = Results();
  EXPECT_EQ(results["1"]["finish_reason"], "error");
  EXPECT_THAT(results["1"]["error"].get<std::string>(),
              HasSubstr("the prompt has 400 tokens, but the context holds 300"));
  EXPECT_EQ(results["2"]["token_ids"].size(), 2U);
}

TEST_F(Generate, RefusesBadFilesAndFlagsByName) {
  const auto expect = [&](const Outcome& outcome, const std::string& part) {
    EXPECT_GT(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  expect(Run(kNano), "requests.jsonl: cannot open");
  Ask("{\"id\": 1, \"token_ids\": [5]}\n{\"id\": 2, \"token_ids\": [99999]}\n");
  expect(Run(kNano), "line 2");
  Ask("{\"id\": 1, \"prompt\": \"Hi\"}\n");
  expect(Run(kNano), "tokenizer.json");
  Ask("{\"id\": 1, \"token_ids\": [5], \"max_tokens\": 1}\n");
  WriteAll(output(), "my diary\n");
  expect(Run(kNano), "results.jsonl");
  EXPECT_EQ(ReadAll(output()), "my diary\n");
  std::filesystem::remove(output());
  expect(Run(kNano, {"--cache-bytes", "1000"}), "expected at least");
}

TEST_F(Generate, LeavesATraceThatCanBeReplayed) {
  Ask(NanoRequests(6));
  const std::string trace = temp_ / "trace.jsonl";
  ASSERT_EQ(Run(kNano, {"--max-running", "2", "--trace", trace}).exit_code, 0);
  const Outcome replay = Cachalot({"replay", trace});
  EXPECT_EQ(replay.exit_code, 0) << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("all as recorded"));
  std::string text = ReadAll(trace);
  const size_t run = text.rfind("\"run\":[[");
  ASSERT_NE(run, std::string::npos);
  text[run + 8] = text[run + 8] == '9' ? '8' : '9';
  WriteAll(trace, text);
  const Outcome changed = Cachalot({"replay", trace});
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_THAT(changed.err, HasSubstr("the plan differs"));
}

}  // namespace
}  // namespace cachalot::e2e
