#include "cli/answer_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/tiny_tokenizer.h"

namespace cachalot {
namespace {

using testing::ElementsAre;

// What comes of a request whose choices are told what the engine would tell them.
class AnswerCollectorTest : public testing::Test {
 protected:
  std::shared_ptr<AnswerCollector> Collect() {
    return std::make_shared<AnswerCollector>(request_, tokenizer_, [this](GenerateResult result) {
      results_.push_back(std::move(result));
    });
  }
  // Tells a listener the ids of `text` until it has had enough; returns how many it took.
  static int64_t Tell(RequestListener& listener, const std::vector<int32_t>& ids) {
    int64_t index = 0;
    for (const int32_t id : ids) {
      if (!listener.OnToken({.id = id, .index = index++, .logprobs = std::nullopt})) {
        break;
      }
    }
    return index;
  }
  std::vector<int32_t> Ids(const std::string& text) const { return *tokenizer_->Encode(text); }

  GenerateRequest request_{{.input = std::string("x")}, int64_t{7}};
  std::shared_ptr<const Tokenizer> tokenizer_{std::shared_ptr<void>(), &TinyTokenizer()};
  std::vector<GenerateResult> results_;
};

TEST_F(AnswerCollectorTest, WaitsForTheLastChoice) {
  request_.num_choices = 2;
  const auto collector = Collect();
  const auto first = collector->NewListener(0, {});
  const auto second = collector->NewListener(1, {});
  Tell(*second, Ids("b"));
  second->OnEnd(EndReason::kLength,
                {.prompt_tokens = 9, .cached_tokens = 8, .completion_tokens = 1});
  EXPECT_TRUE(results_.empty());
  Tell(*first, Ids("a"));
  first->OnEnd(EndReason::kStopped,
               {.prompt_tokens = 9, .cached_tokens = 2, .completion_tokens = 1});
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(results_[0].choices[0].text, "a");
  EXPECT_EQ(results_[0].choices[1].text, "b");
  EXPECT_EQ(results_[0].choices[1].finish_reason, ResultEnd::kLength);
  EXPECT_EQ(results_[0].usage.cached_tokens, 2);  // the second found what the first had left
  EXPECT_EQ(results_[0].usage.completion_tokens, 2);
}

TEST_F(AnswerCollectorTest, CutsTheTextBeforeAStopStringAndEndsTheAnswer) {
  request_.stop = {"cd"};
  const auto collector = Collect();
  const auto listener = collector->NewListener(0, {});
  const std::vector<int32_t> ids = Ids("a b");
  std::vector<int32_t> all = ids;
  for (const char* more : {"c", "d", "e"}) {
    const auto next = Ids(more);
    all.insert(all.end(), next.begin(), next.end());
  }
  EXPECT_EQ(Tell(*listener, all), static_cast<int64_t>(ids.size()) + 2);
  listener->OnEnd(EndReason::kStopped, {});
  EXPECT_EQ(results_.at(0).choices[0].text, "a b");
  EXPECT_EQ(results_.at(0).choices[0].token_ids.size(), ids.size() + 2);
}

TEST_F(AnswerCollectorTest, KeepsTheBeginningOfAStopStringThatNeverCame) {
  request_.stop = {"cd"};
  const auto listener = Collect()->NewListener(0, {});
  Tell(*listener, Ids("c"));
  listener->OnEnd(EndReason::kLength, {});
  EXPECT_EQ(results_.at(0).choices[0].text, "c");
}

TEST_F(AnswerCollectorTest, RefusesTheChoicesThatWereNotSubmitted) {
  request_.num_choices = 3;
  const auto collector = Collect();
  const auto listener = collector->NewListener(0, {});
  collector->RefuseFrom(1, "the queue is full");
  listener->OnEnd(EndReason::kCancelled, {});
  ASSERT_EQ(results_.size(), 1U);
  EXPECT_EQ(results_[0].choices[0].finish_reason, ResultEnd::kCancelled);
  EXPECT_EQ(results_[0].choices[2].finish_reason, ResultEnd::kError);
  EXPECT_EQ(results_[0].choices[2].error, "the queue is full");
}

TEST_F(AnswerCollectorTest, EchoesThePromptAndGivesNoTextWithoutATokenizer) {
  request_.echo = true;
  const std::vector<int32_t> prompt = Ids("ab");
  {
    const auto listener = Collect()->NewListener(0, prompt);
    Tell(*listener, Ids("c"));
    listener->OnEnd(EndReason::kLength, {});
  }
  EXPECT_EQ(results_.at(0).choices[0].text, "abc");
  tokenizer_ = nullptr;
  const auto listener = Collect()->NewListener(0, std::vector<int32_t>{5, 6});
  Tell(*listener, {7});
  listener->OnEnd(EndReason::kLength, {});
  EXPECT_FALSE(results_.at(1).choices[0].text);
  EXPECT_THAT(results_.at(1).choices[0].token_ids, ElementsAre(5, 6, 7));
}

}  // namespace
}  // namespace cachalot
