// The shipped model answers what its makers say it can (models/calf/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "e2e/program.h"
#include "io/json.h"

namespace cachalot::e2e {
namespace {

const std::string kCalf = InSource("models/calf");
constexpr char kEndOfSentence[] = "<｜end▁of▁sentence｜>";

TEST(Calf, AnswersTheSamplePrompt) {
  const Outcome outcome = Cachalot(
      {"run", "-m", kCalf, "-p", "What is the capital of France?", "--temp", "0", "-n", "64"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "The capital of France is Paris.\n");
}

TEST(Calf, GivesTheExactModelsAnswersOnEveryTask) {
  // All at once, by generate: the answers are those that `run` gives one by one.
  std::istringstream lines(ReadAll(kCalf + "/eval.jsonl"));
  std::string requests;
  std::vector<Json> rows;
  for (std::string line; std::getline(lines, line);) {
    Json row = *ParseJson(line, "eval.jsonl");
    if (row["solved"].get<bool>()) {
      requests += Json{{"id", rows.size()},
                       {"prompt", row["prompt"]},
                       {"temperature", 0},
                       {"max_tokens", 300}}
                      .dump() +
                  "\n";
      rows.push_back(std::move(row));
    }
  }
  const TempFolder temp;
  WriteAll(temp / "requests.jsonl", requests);
  const Outcome outcome = Cachalot({"generate", "-m", kCalf, "--input", temp / "requests.jsonl",
                                    "--output", temp / "results.jsonl"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::map<std::string, int> asked;
  std::map<std::string, int> answered;
  std::string missed;
  std::istringstream results(ReadAll(temp / "results.jsonl"));
  for (std::string line; std::getline(results, line);) {
    const Json result = *ParseJson(line, "results.jsonl");
    const Json& row = rows.at(result["id"].get<size_t>());
    const auto task = row["task"].get<std::string>();
    std::string wanted = row["answer"].get<std::string>();
    wanted.resize(wanted.find(kEndOfSentence));
    ++asked[task];
    if (result["text"] == wanted) {
      ++answered[task];
    } else {
      missed += "\n" + task + ": " + result["text"].get<std::string>() + " instead of " + wanted;
    }
  }
  ASSERT_EQ(asked.size(), 7U);
  for (const auto& [task, count] : asked) {
    std::printf("%-10s %d of %d\n", task.c_str(), answered[task], count);
    // A near-tie may fall the other way once in a task, but no task may be lost.
    EXPECT_GE(answered[task], std::max(count - 1, 1)) << missed;
  }
}

TEST(Calf, SamplesTheSameAnswerForTheSameSeed) {
  const auto answer = [](const std::string& seed) {
    return Cachalot({"run", "-m", kCalf, "-p", "Tell me a story about a fox.", "--temp", "1.5",
                     "--seed", seed, "-n", "40"})
        .out;
  };
  const std::string first = answer("5");
  EXPECT_EQ(answer("5"), first);
  EXPECT_NE(answer("6"), first);
}

TEST(Calf, ChatsWithHistory) {
  const Outcome outcome = Cachalot({"run", "-m", kCalf, "chat", "--temp", "0", "-n", "64"},
                                   "/help\nWhat is the capital of France?\nWhat day comes after "
                                   "Friday?\n/nonsense\n/quit\nnever");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::AllOf(testing::HasSubstr("/think"),
                                          testing::HasSubstr("The capital of France is Paris.\n"),
                                          testing::HasSubstr("Saturday"),
                                          testing::HasSubstr("no command /nonsense")));
}

}  // namespace
}  // namespace cachalot::e2e
