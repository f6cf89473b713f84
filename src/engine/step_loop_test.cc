// What a request can rely on, step by step (docs/contracts/engine.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/runner.h"
#include "engine/step_loop_scene.h"
#include "engine/teacher_forcing.h"
#include "scheduler/trace.h"

namespace cachalot {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::Not;

SamplingParams Penalised() {
  SamplingParams sampling;
  sampling.temperature = 0.8;
  sampling.seed = 7;
  sampling.repetition_penalty = 1.3;
  sampling.frequency_penalty = 0.4;
  sampling.logit_bias = {{9, 4}, {10, -4}};
  return sampling;
}

// Logits of every position of a text, by the runner.
std::vector<std::vector<float>> ForcedLogits(const std::string& golden, const Tokens& ids) {
  const auto device = *cpu::NewCpuDevice({.num_threads = 1, .isa = {}});
  ModelConfig config = *LoadModelConfig(Golden(golden));
  Weights weights = *Weights::Load(Golden(golden), config);
  const auto vocab = static_cast<size_t>(config.vocab_size);
  ModelRunner runner = *ModelRunner::New(*device, std::move(config), std::move(weights),
                                         {.max_context = static_cast<int64_t>(ids.size())});
  std::vector<std::vector<float>> rows;
  const auto sink = [&](std::span<const float> logits) -> Status {
    for (size_t begin = 0; begin < logits.size(); begin += vocab) {
      const auto row = logits.subspan(begin, vocab);
      rows.emplace_back(row.begin(), row.end());
    }
    return {};
  };
  EXPECT_TRUE(ForceTokens(runner, ids,
                          {.prefill = static_cast<int64_t>(ids.size()) - 3, .chunk = 100}, sink));
  return rows;
}

class StepLoopTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Checkpoints, StepLoopTest, testing::Values("native", "w8a8"));

TEST_P(StepLoopTest, GivesARequestTheAnswerThatItHasAlone) {
  StepLoopScene cold(Cold(GetParam()));
  StepLoopScene together({.golden = GetParam(), .max_running = 3, .chunk = 128, .threads = 2});
  const Tokens beginning = RandomText(1, 300);
  std::vector<std::shared_ptr<const Heard>> found;
  std::vector<std::shared_ptr<const Heard>> wanted;
  for (uint32_t i = 0; i < 6; ++i) {
    const auto ask = [&] {
      EngineRequest request = Ask((i % 2 == 0 ? beginning : Tokens()) + RandomText(10 + i, 40 + i));
      if (i % 3 == 0) {
        request.sampling = Penalised();
      }
      return request;
    };
    found.push_back(together.Submit(ask()));
    wanted.push_back(ColdAnswer(cold, ask()));
  }
  together.Drain();
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i]->ok());
    EXPECT_EQ(AnswerBits(*found[i]), AnswerBits(*wanted[i])) << "request " << i;
  }
  EXPECT_EQ(together.LeakReport(), "");
}

// engine.E5
TEST_P(StepLoopTest, TellsTheLogprobsOfTheRawLogits) {
  const Tokens prompt = RandomText(2, 200);
  StepLoopScene scene({.golden = GetParam(), .chunk = 128});
  EngineRequest request = Ask(prompt, 5);
  request.sampling = Penalised();
  request.top_logprobs = 20;
  const auto heard = scene.Answer(std::move(request));
  ASSERT_EQ(heard->logprobs.size(), 5U);
  const auto logits = ForcedLogits(GetParam(), prompt + heard->ids);
  for (size_t i = 0; i < 5; ++i) {
    const TokenLogprobs wanted = LogprobsOf(logits[prompt.size() - 1 + i], heard->ids[i], 20);
    EXPECT_EQ(BitsOf(heard->logprobs[i]), BitsOf(wanted)) << "token " << i;
  }
}

// engine.E5
TEST_P(StepLoopTest, TellsTheLogprobsOfAPromptWhateverItsChunks) {
  const Tokens prompt = RandomText(3, 290);
  const auto logits = ForcedLogits(GetParam(), prompt);
  for (const int64_t chunk : {128, 256, 512}) {
    SCOPED_TRACE(chunk);
    StepLoopScene scene({.golden = GetParam(), .max_running = 2, .chunk = chunk});
    scene.Answer(Ask(prompt, 1));  // would be found again
    scene.Submit(Ask(RandomText(4, 100), 20));
    EngineRequest request = Ask(prompt, 2);
    request.prompt_logprobs = true;
    const auto heard = scene.Submit(std::move(request));
    // Retracted in its prompt and in its answer, it tells nothing twice.
    scene.Step();
    scene.loop().scheduler().Retract(scene.last_id());
    while (heard->ids.empty()) {
      scene.Step();
    }
    if (!heard->end) {
      scene.loop().scheduler().Retract(scene.last_id());
    }
    scene.Drain();
    EXPECT_EQ(heard->usage.cached_tokens, 0);
    ASSERT_EQ(heard->prompt_logprobs.size(), prompt.size() - 1);
    for (size_t i = 1; i < prompt.size(); ++i) {
      const auto& [index, found] = heard->prompt_logprobs[i - 1];
      ASSERT_EQ(index, static_cast<int64_t>(i));
      ASSERT_EQ(BitsOf(found), BitsOf(LogprobsOf(logits[i - 1], prompt[i], 3))) << "token " << i;
    }
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

// engine.E4
TEST(StepLoop, PassesNoStopTokenOnAndSamplesNoneBeforeItsTime) {
  const Tokens prompt = RandomText(5, 20);
  StepLoopScene scene;
  const Tokens answer = scene.Answer(Ask(prompt, 6))->ids;
  ASSERT_EQ(answer.size(), 6U);
  const auto where = std::ranges::find(answer, answer[3]) - answer.begin();

  EngineRequest stops = Ask(prompt, 6);
  stops.sampling.stop_ids = {answer[3]};
  const auto stopped = scene.Answer(std::move(stops));
  EXPECT_EQ(stopped->end, EndReason::kStopped);
  EXPECT_EQ(stopped->ids, First(answer, where));
  EXPECT_EQ(stopped->usage.completion_tokens, where);

  EngineRequest waits = Ask(prompt, 6);
  waits.sampling.stop_ids = {answer[3]};
  waits.sampling.min_new_tokens = 5;
  const auto waited = scene.Answer(std::move(waits));
  ASSERT_GE(waited->ids.size(), 5U);
  EXPECT_THAT(waited->ids, Each(Not(answer[3])));

  EngineRequest banned = Ask(prompt, 6);
  banned.sampling.banned_ids = std::make_shared<const Tokens>(answer);
  const Tokens others = scene.Answer(std::move(banned))->ids;
  for (const int32_t id : others) {
    EXPECT_THAT(answer, Each(Not(id)));
  }
}

// engine.E3
TEST(StepLoop, EndsARequestWhoseListenerHasHeardEnough) {
  for (const bool plan_ahead : {false, true}) {
    StepLoopScene scene({.plan_ahead = plan_ahead});
    const auto heard = scene.Submit(Ask(RandomText(6, 30), 50),
                                    [](const GeneratedToken& token) { return token.index < 2; });
    const auto other = scene.Submit(Ask(RandomText(7, 30), 8));
    scene.Drain();
    EXPECT_EQ(heard->end, EndReason::kStopped);
    EXPECT_EQ(heard->ids.size(), 3U);
    EXPECT_EQ(heard->usage.completion_tokens, 3);
    EXPECT_TRUE(heard->orderly);
    EXPECT_EQ(other->ids.size(), 8U);
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

// Allows two tokens of its own at each step, and ends after `length`.
class TwoOf final : public TokenConstraint {
 public:
  explicit TwoOf(int64_t length) : length_(length) {}
  std::span<const uint64_t> Allowed() override {
    allowed_.fill(0);
    allowed_[static_cast<size_t>(accepted_ % 4)] = 0b110000;
    return allowed_;
  }
  bool Accept(int32_t id) override {
    EXPECT_EQ(id / 64, accepted_ % 4);
    EXPECT_THAT(id % 64, AnyOf(4, 5));
    return ++accepted_ < length_;
  }

 private:
  const int64_t length_;
  int64_t accepted_ = 0;
  std::array<uint64_t, 4> allowed_ = {};
};

TEST(StepLoop, SamplesWhatItsConstraintAllows) {
  for (const bool plan_ahead : {false, true}) {
    StepLoopScene scene({.plan_ahead = plan_ahead});
    const auto free = scene.Answer(Ask(RandomText(12, 30), 8));
    EngineRequest bound = Ask(RandomText(11, 30), 50);
    bound.constraint = std::make_unique<TwoOf>(9);
    const auto heard = scene.Submit(std::move(bound));
    const auto other = scene.Submit(Ask(RandomText(12, 30), 8));
    scene.Drain();
    EXPECT_EQ(heard->end, EndReason::kStopped);
    EXPECT_EQ(heard->ids.size(), 9U);
    EXPECT_TRUE(heard->orderly);
    EXPECT_EQ(AnswerBits(*other), AnswerBits(*free));
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

TEST(StepLoop, EndsAtItsLengthAndAtTheContexts) {
  StepLoopScene scene;
  const auto one = scene.Answer(Ask(RandomText(8, 30), 1));
  EXPECT_EQ(one->end, EndReason::kLength);
  EXPECT_EQ(one->ids.size(), 1U);
  EXPECT_EQ(one->usage.prompt_tokens, 30);
  EXPECT_EQ(one->usage.completion_tokens, 1);
  const auto full = scene.Answer(Ask(RandomText(9, kSceneContext - 3), 100));
  EXPECT_EQ(full->end, EndReason::kLength);
  EXPECT_EQ(full->ids.size(), 3U);
}

TEST(StepLoop, EndsTheListenerOfARequestThatCannotRun) {
  StepLoopScene scene;
  const auto heard = scene.Submit(Ask({}, 1));
  EXPECT_EQ(heard->end, EndReason::kFailed);
  EXPECT_TRUE(scene.loop().scheduler().idle());
}

// Cancels at every step, and from the listener itself.
TEST(StepLoop, CancelsInEveryState) {
  for (const bool plan_ahead : {false, true}) {
    StepLoopScene cold(Cold());
    const Tokens wanted = ColdAnswer(cold, Ask(RandomText(11, 300), 6))->ids;
    for (int at = 0; at < 12; ++at) {
      SCOPED_TRACE(at);
      StepLoopScene scene({.max_running = 2, .chunk = 128, .plan_ahead = plan_ahead});
      const auto running = scene.Submit(Ask(RandomText(12, 300), 6));
      const RequestId first = scene.last_id();
      const auto stays = scene.Submit(Ask(RandomText(11, 300), 6));
      const auto waiting = scene.Submit(Ask(RandomText(13, 300), 6));  // there is no slot for it
      for (int step = 0; step < at; ++step) {
        scene.Step();
      }
      scene.loop().Cancel(first);
      scene.loop().Cancel(scene.last_id());
      scene.loop().Cancel(RequestId(99));
      const bool over = running->end.has_value();
      scene.Drain();
      EXPECT_TRUE(running->orderly && waiting->orderly);
      EXPECT_EQ(running->end, over ? EndReason::kLength : EndReason::kCancelled);
      EXPECT_TRUE(waiting->end.has_value());
      EXPECT_EQ(stays->ids, wanted);
      EXPECT_EQ(scene.LeakReport(), "");
    }
    StepLoopScene scene({.plan_ahead = plan_ahead});
    const auto heard = scene.Submit(Ask(RandomText(14, 30), 50), [&](const GeneratedToken& token) {
      if (token.index == 3) {
        scene.loop().Cancel(RequestId(1));
      }
      return true;
    });
    scene.Drain();
    EXPECT_EQ(heard->end, EndReason::kCancelled);
    EXPECT_TRUE(heard->orderly);
    EXPECT_LE(heard->ids.size(), 5U);
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

TEST(StepLoop, EndsRequestsAtTheirDeadlines) {
  StepLoopScene scene({.max_running = 1});
  EngineRequest runs = Ask(RandomText(15, 30), 100);
  runs.timeout = 5e-9;
  EngineRequest waits = Ask(RandomText(16, 30), 100);
  waits.timeout = 3e-9;
  const auto running = scene.Submit(std::move(runs));
  const auto waiting = scene.Submit(std::move(waits));
  for (; scene.now < 8; ++scene.now) {
    scene.Step();
    EXPECT_EQ(running->end.has_value(), scene.now >= 5);
    EXPECT_EQ(waiting->end.has_value(), scene.now >= 3);
  }
  EXPECT_EQ(running->end, EndReason::kDeadline);
  EXPECT_EQ(running->ids.size(), 5U);
  EXPECT_EQ(waiting->end, EndReason::kDeadline);
  EXPECT_EQ(waiting->usage.completion_tokens, 0);
  EXPECT_EQ(scene.LeakReport(), "");
}

TEST(StepLoop, RunsTheMoreUrgentFirst) {
  StepLoopScene scene({.max_running = 1});
  std::vector<int32_t> order;
  for (const int32_t priority : {0, 2, 1}) {
    EngineRequest request = Ask(RandomText(17, 30), 2);
    request.priority = priority;
    scene.Submit(std::move(request), [&order, priority](const GeneratedToken& token) {
      if (token.index == 0) {
        order.push_back(priority);
      }
      return true;
    });
  }
  scene.Drain();
  EXPECT_THAT(order, ElementsAre(2, 1, 0));
}

TEST(StepLoop, RunsTheCommonPromptOfManyOnce) {
  const Tokens prompt = RandomText(18, 400);
  StepLoopScene cold(Cold());
  const auto wanted = ColdAnswer(cold, Ask(prompt, 5));
  StepLoopScene scene({.max_running = 4, .chunk = 256});
  std::vector<std::shared_ptr<const Heard>> copies;
  for (int i = 0; i < 4; ++i) {
    copies.push_back(scene.Submit(Ask(prompt, 5)));
  }
  scene.Drain();
  for (size_t i = 0; i < copies.size(); ++i) {
    EXPECT_EQ(AnswerBits(*copies[i]), AnswerBits(*wanted));
    EXPECT_EQ(copies[i]->usage.prompt_tokens, 400);
    EXPECT_EQ(copies[i]->usage.cached_tokens, i == 0 ? 0 : 384);
    EXPECT_EQ(copies[i]->usage.completion_tokens, 5);
  }
}

TEST(StepLoop, TellsProgressThatOnlyRises) {
  StepLoopScene scene({.chunk = 128});
  const auto first = scene.Answer(Ask(RandomText(19, 300), 2));
  EXPECT_THAT(first->progress, ElementsAre(128, 256, 300));
  const auto again = scene.Answer(Ask(First(RandomText(19, 300), 200) + RandomText(20, 250), 2));
  EXPECT_EQ(again->usage.cached_tokens, 128);
  EXPECT_THAT(again->progress, ElementsAre(256, 384, 450));

  StepLoopScene forgetful({.chunk = 128, .prefix_cache = false});
  const auto retracted = forgetful.Submit(Ask(RandomText(19, 300), 2));
  forgetful.Step();
  forgetful.Step();
  forgetful.loop().scheduler().Retract(forgetful.last_id());
  forgetful.Drain();
  EXPECT_THAT(retracted->progress, ElementsAre(128, 256, 300));
}

TEST(StepLoop, LeavesATraceThatReplays) {
  for (const bool plan_ahead : {false, true}) {
    StepLoopScene scene({.max_running = 2,
                         .chunk = 128,
                         .cache_tokens = 1024,
                         .host_slots = {8, 8},
                         .plan_ahead = plan_ahead});
    std::string trace = TraceHeader(scene.loop().scheduler().options()) + "\n";
    scene.loop().scheduler().Observe(
        [&](const SchedulerEvent& event) { trace += TraceLine(event) + "\n"; });
    for (uint32_t i = 0; i < 6; ++i) {
      scene.Submit(Ask(RandomText(i / 2, 300) + RandomText(i, 10 + i), 20));
    }
    for (int step = 0; step < 7; ++step) {
      scene.Step();
    }
    scene.loop().Cancel(RequestId(2));
    scene.loop().scheduler().Retract(scene.loop().scheduler().running().front());
    scene.Step();
    scene.faults.fail_at = scene.faults.waits + 3;
    scene.Drain();
    const auto replayed = ReplayTrace(trace, "trace");
    ASSERT_TRUE(replayed) << replayed.error().message;
    EXPECT_GT(replayed->plans, 20);
    EXPECT_THAT(trace, testing::HasSubstr("\"fail\""));
  }
}

}  // namespace
}  // namespace cachalot
