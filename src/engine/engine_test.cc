// The runner over a small checkpoint: batches, slots, limits, answers. What the logits are is
// tested end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "backends/cpu/cpu_device.h"
#include "checkpoint/editable_checkpoint.h"
#include "engine/batch_builder.h"
#include "engine/cache_plan.h"
#include "engine/generate.h"
#include "engine/runner.h"
#include "engine/teacher_forcing.h"

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Engine {
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelRunner> runner;

  ModelRunner* operator->() const { return runner.get(); }
};

Engine NewEngine(const std::string& golden, const RunnerOptions& options, int num_threads = 2) {
  const std::string folder = CACHALOT_SOURCE_DIR "/tests/golden/" + golden;
  Engine engine;
  engine.device = *cpu::NewCpuDevice({.num_threads = num_threads, .isa = {}});
  ModelConfig config = *LoadModelConfig(folder);
  Weights weights = *Weights::Load(folder, config);
  engine.runner = std::make_unique<ModelRunner>(
      *ModelRunner::New(*engine.device, std::move(config), std::move(weights), options));
  return engine;
}

std::vector<int32_t> SomeIds(int64_t count, int32_t seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>((i * i * 7 + i * 13 + seed * 31) % 250 + 3));
  }
  return ids;
}

// Runs `ids` in steps of `chunk` and returns the last token's logits.
std::vector<float> LastLogits(ModelRunner& runner, RequestSlot slot, std::span<const int32_t> ids,
                              size_t chunk) {
  std::vector<float> logits;
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    const auto part = ids.subspan(begin, std::min(chunk, ids.size() - begin));
    const RequestTokens step = {slot, part};
    EXPECT_TRUE(runner.Forward({&step, 1}));
    const auto last = static_cast<int64_t>(part.size()) - 1;
    EXPECT_TRUE(runner.Logits(last, last + 1, &logits));
  }
  return logits;
}

TEST(ModelRunner, GivesARequestTheSameLogitsWhateverSharesItsBatch) {
  Engine engine =
      NewEngine("native", {.max_context = 600, .max_requests = 3, .max_step_tokens = 512});
  const std::vector<std::vector<int32_t>> prompts = {SomeIds(150, 1), SomeIds(3, 2),
                                                     SomeIds(290, 3)};
  std::vector<std::vector<float>> alone;
  for (const auto& prompt : prompts) {
    const RequestSlot slot = *engine->Open();
    alone.push_back(LastLogits(*engine.runner, slot, prompt, 64));
    engine->Close(slot);
  }
  std::vector<RequestTokens> step;
  for (const auto& prompt : prompts) {
    step.push_back({*engine->Open(), prompt});
  }
  ASSERT_TRUE(engine->Forward(step));
  int64_t row = -1;
  for (size_t i = 0; i < prompts.size(); ++i) {
    row += static_cast<int64_t>(prompts[i].size());
    std::vector<float> together;
    ASSERT_TRUE(engine->Logits(row, row + 1, &together));
    EXPECT_EQ(together, alone[i]) << "request " << i;
  }
}

TEST(ModelRunner, MixesDecodingAndPrefill) {
  Engine engine = NewEngine("bf16", {.max_context = 400, .max_requests = 2});
  const auto first = SomeIds(140, 4);
  const auto second = SomeIds(100, 5);
  const RequestSlot reference = *engine->Open();
  const auto wanted = LastLogits(*engine.runner, reference, first, 139);
  engine->Close(reference);

  const RequestSlot a = *engine->Open();
  const RequestSlot b = *engine->Open();
  LastLogits(*engine.runner, a, std::span(first).first(139), 50);
  const std::vector<RequestTokens> step = {{b, second}, {a, std::span(first).last(1)}};
  ASSERT_TRUE(engine->Forward(step));
  std::vector<float> found;
  ASSERT_TRUE(engine->Logits(100, 101, &found));
  EXPECT_EQ(found, wanted);
}

TEST(ModelRunner, GoesOnFromADepthOfNoise) {
  Engine engine = NewEngine("native", {.max_context = 1100, .max_step_tokens = 200});
  const auto ids = SomeIds(3, 7);
  std::vector<std::vector<float>> logits;
  for (const int64_t depth : {0, 1000, 1000}) {
    const RequestSlot slot = *engine->Open();
    ASSERT_TRUE(engine->FillWithNoise(*engine.device, slot, depth));
    EXPECT_EQ(engine->length(slot), depth);
    logits.push_back(LastLogits(*engine.runner, slot, ids, 2));
    EXPECT_EQ(engine->length(slot), depth + 3);
    engine->Close(slot);
  }
  EXPECT_NE(logits[1], logits[0]);
  EXPECT_EQ(logits[2], logits[1]);  // the same noise
  for (const float logit : logits[1]) {
    ASSERT_TRUE(std::isfinite(logit));
  }
  const RequestSlot slot = *engine->Open();
  const auto failed = engine->FillWithNoise(*engine.device, slot, 1101);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("do not fit a context of 1100"));
}

TEST(ModelRunner, StartsAReusedSlotAfresh) {
  Engine engine = NewEngine("native", {.max_context = 500});
  const auto ids = SomeIds(131, 6);
  RequestSlot slot = *engine->Open();
  const auto wanted = LastLogits(*engine.runner, slot, ids, 512);
  engine->Close(slot);
  slot = *engine->Open();
  LastLogits(*engine.runner, slot, SomeIds(333, 7), 100);
  engine->Close(slot);
  slot = *engine->Open();
  EXPECT_EQ(LastLogits(*engine.runner, slot, ids, 40), wanted);
}

TEST(ModelRunner, HasRoomForTheWindowsOfAllItsRequests) {
  Engine engine =
      NewEngine("native", {.max_context = 700, .max_requests = 6, .max_step_tokens = 512});
  const auto ids = SomeIds(300, 15);
  std::vector<RequestSlot> slots;
  for (int i = 0; i < 6; ++i) {
    slots.push_back(*engine->Open());
  }
  for (int round = 0; round < 2; ++round) {
    for (const RequestSlot slot : slots) {
      const RequestTokens step = {slot, ids};
      const Status status = engine->Forward({&step, 1});
      ASSERT_TRUE(status) << status.error().message;
    }
  }
}

// Without a layer of some ratio there is nothing of its pools, tables and state.
TEST(ModelRunner, RunsModelsWhoseLayersAreAllOfOneRatio) {
  const auto ids = SomeIds(261, 16);
  std::vector<std::vector<float>> logits;
  for (const int64_t ratio : {0, 4, 128}) {
    SCOPED_TRACE(ratio);
    ModelConfig written = *NamedShape("nano", WeightLayout::kNative);
    written.compress_ratios.assign(static_cast<size_t>(written.num_layers), ratio);
    const std::string folder = SynthFolder("one_ratio", written);
    const auto device = *cpu::NewCpuDevice({.num_threads = 2, .isa = {}});
    auto config = LoadModelConfig(folder);
    ASSERT_TRUE(config) << config.error().message;
    auto weights = Weights::Load(folder, *config);
    ASSERT_TRUE(weights) << weights.error().message;
    auto runner = ModelRunner::New(*device, *std::move(config), *std::move(weights),
                                   {.max_context = 300, .max_requests = 2});
    ASSERT_TRUE(runner) << runner.error().message;
    logits.push_back(LastLogits(*runner, *runner->Open(), ids, 200));
    EXPECT_EQ(LastLogits(*runner, *runner->Open(), ids, 87), logits.back());
  }
  EXPECT_NE(logits[1], logits[0]);
  EXPECT_NE(logits[2], logits[0]);
}

TEST(ModelRunner, RefusesWhatDoesNotFit) {
  Engine engine = NewEngine("native", {.max_context = 100, .max_step_tokens = 128});
  const RequestSlot slot = *engine->Open();
  const auto second = engine->Open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "all 1 request slots are taken");

  const auto ids = SomeIds(101, 8);
  const RequestTokens all = {slot, ids};
  EXPECT_EQ(engine->Forward({&all, 1}).error().message,
            "101 tokens after 0 do not fit a context of 100");
  const std::vector<int32_t> strange = {3, 256};
  const RequestTokens step = {slot, strange};
  EXPECT_EQ(engine->Forward({&step, 1}).error().message,
            "token 1 of the input has id 256, expected 0 to 255");
  EXPECT_EQ(engine->length(slot), 0);
}

TEST(ModelRunner, RefusesAContextBeyondTheModels) {
  const std::string folder = CACHALOT_SOURCE_DIR "/tests/golden/native";
  const auto device = *cpu::NewCpuDevice({});
  ModelConfig config = *LoadModelConfig(folder);
  Weights weights = *Weights::Load(folder, config);
  const int64_t context = config.max_position + 1;
  const auto runner =
      ModelRunner::New(*device, std::move(config), std::move(weights), {.max_context = context});
  ASSERT_FALSE(runner);
  EXPECT_THAT(runner.error().message, HasSubstr("expected 1 to the model's 1048576"));
}

TEST(ModelRunner, LeavesARequestAsItWasAfterADraft) {
  for (const StateKind state : {StateKind::kRing, StateKind::kPaged}) {
    Engine engine =
        NewEngine("dspark", {.max_context = 300, .draft_context = true, .state = state});
    const auto ids = SomeIds(200, 9);
    const RequestSlot slot = *engine->Open();
    LastLogits(*engine.runner, slot, std::span(ids).first(150), 64);
    const auto draft = engine->DraftBlock(slot, ids[150]);
    ASSERT_TRUE(draft);
    EXPECT_EQ(draft->ids.size(), 4U);
    EXPECT_EQ(draft->confidence.size(), 4U);
    EXPECT_EQ(engine->length(slot), 150);
    EXPECT_EQ(engine->DraftBlock(slot, ids[150])->logits, draft->logits);

    const auto after_draft = LastLogits(*engine.runner, slot, std::span(ids).subspan(150), 7);
    engine->Close(slot);
    const RequestSlot plain = *engine->Open();
    EXPECT_EQ(LastLogits(*engine.runner, plain, ids, 64), after_draft);
  }
}

// One request, so that its pages of state are as few as can be.
TEST(ModelRunner, GivesTheSameLogitsFromPagesOfStateWhateverTheSteps) {
  const RunnerOptions rings = {.max_context = 900, .max_step_tokens = 400};
  RunnerOptions pages = rings;
  pages.state = StateKind::kPaged;
  Engine of_rings = NewEngine("native", rings);
  Engine of_pages = NewEngine("native", pages);
  const auto ids = SomeIds(900, 3);
  const RequestSlot slot = *of_rings->Open();
  ASSERT_EQ(*of_pages->Open(), slot);
  size_t begin = 0;
  for (const size_t step : {1, 129, 256, 3, 1, 1, 127, 130, 2, 1, 249}) {
    const auto part = std::span(ids).subspan(begin, step);
    EXPECT_EQ(LastLogits(*of_pages.runner, slot, part, step),
              LastLogits(*of_rings.runner, slot, part, step))
        << "after " << begin;
    begin += step;
  }
  EXPECT_EQ(begin, ids.size());
}

TEST(Generate, IsGreedyDecodingOfThePrompt) {
  Engine engine = NewEngine("native", {.max_context = 200, .max_step_tokens = 32});
  const auto prompt = SomeIds(50, 10);
  const RequestSlot slot = *engine->Open();
  std::vector<int32_t> answer;
  std::vector<int64_t> prefilled;
  GenerateHooks hooks;
  hooks.on_token = [&](int32_t id) { answer.push_back(id); };
  hooks.on_prefill = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 50);
    prefilled.push_back(done);
  };
  const GenerateOptions options = {.sampling = {.temperature = 0}, .max_new_tokens = 6};
  EXPECT_EQ(*Generate(*engine.runner, slot, prompt, options, hooks), AnswerEnd::kLength);
  EXPECT_THAT(prefilled, ElementsAre(32, 50));
  ASSERT_EQ(answer.size(), 6U);
  EXPECT_EQ(engine->length(slot), 55);
  engine->Close(slot);

  auto text = prompt;
  for (const int32_t id : answer) {
    const RequestSlot again = *engine->Open();
    EXPECT_EQ(ArgMax(LastLogits(*engine.runner, again, text, 20)), id);
    engine->Close(again);
    text.push_back(id);
  }

  const RequestSlot stopped = *engine->Open();
  answer.clear();
  EXPECT_EQ(*Generate(*engine.runner, stopped, prompt,
                      {.sampling = {.temperature = 0, .stop_ids = {text[52]}}, .max_new_tokens = 6},
                      hooks),
            AnswerEnd::kStopToken);
  EXPECT_LE(answer.size(), 2U);
}

TEST(Generate, NeverSamplesABannedId) {
  Engine engine = NewEngine("native", {.max_context = 100});
  const auto prompt = SomeIds(10, 14);
  GenerateOptions options = {.sampling = {.temperature = 0}, .max_new_tokens = 1};
  int32_t first = -1;
  GenerateHooks hooks;
  hooks.on_token = [&](int32_t id) { first = id; };
  ASSERT_TRUE(Generate(*engine.runner, *engine->Open(), prompt, options, hooks));
  engine->Close(RequestSlot(1));
  options.sampling.banned_ids = std::make_shared<const std::vector<int32_t>>(1, first);
  const int32_t banned = first;
  ASSERT_TRUE(Generate(*engine.runner, *engine->Open(), prompt, options, hooks));
  EXPECT_NE(first, banned);
}

TEST(Generate, StopsWhenCancelledAndWhenTheContextIsFull) {
  Engine engine = NewEngine("native", {.max_context = 60, .max_step_tokens = 16});
  const auto prompt = SomeIds(50, 11);
  const GenerateOptions options = {.sampling = {.temperature = 0}, .max_new_tokens = 1000};
  int tokens = 0;
  GenerateHooks hooks;
  hooks.on_token = [&](int32_t) { ++tokens; };
  RequestSlot slot = *engine->Open();
  EXPECT_EQ(*Generate(*engine.runner, slot, prompt, options, hooks), AnswerEnd::kLength);
  EXPECT_EQ(tokens, 11);  // ten fill the context, and the last needs no room
  EXPECT_THAT(Generate(*engine.runner, slot, prompt, options, hooks).error().message,
              HasSubstr("the prompt has 50 tokens, but only 0 of the context's 60 are free"));
  engine->Close(slot);

  slot = *engine->Open();
  tokens = 0;
  hooks.cancelled = [&] { return tokens == 3; };
  EXPECT_EQ(*Generate(*engine.runner, slot, prompt, options, hooks), AnswerEnd::kCancelled);
  EXPECT_EQ(tokens, 3);
  engine->Close(slot);

  slot = *engine->Open();
  hooks.cancelled = [&] { return engine->length(slot) >= 32; };
  EXPECT_EQ(*Generate(*engine.runner, slot, prompt, options, hooks), AnswerEnd::kCancelled);
  EXPECT_EQ(engine->length(slot), 32);
}

TEST(ForceTokens, GivesARowPerTokenAndOneLessForMtp) {
  Engine engine = NewEngine("native", {.max_context = 40});
  const auto ids = SomeIds(40, 12);
  for (const auto& [head, rows] :
       {std::pair(LogitsHead::kMain, 40), std::pair(LogitsHead::kMtp, 39)}) {
    size_t values = 0;
    ASSERT_TRUE(ForceTokens(*engine.runner, ids, {.prefill = 33, .chunk = 16, .head = head},
                            [&](std::span<const float> logits) -> Status {
                              values += logits.size();
                              return {};
                            }));
    EXPECT_EQ(values, static_cast<size_t>(rows) * 256);
  }
}

TEST(ForceTokens, EndsAtTheSinksError) {
  Engine engine = NewEngine("native", {.max_context = 40});
  const auto ids = SomeIds(40, 13);
  int calls = 0;
  const Status status = ForceTokens(*engine.runner, ids, {.prefill = 40, .chunk = 8},
                                    [&](std::span<const float>) -> Status {
                                      ++calls;
                                      return MakeError(StatusCode::kIoError, "disk full");
                                    });
  EXPECT_EQ(status.error().message, "disk full");
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(engine->Open()) << "the request was left open";
}

TEST(WindowRanges, AreCausalOrTheWholeBlock) {
  const std::vector<int32_t> positions = {0, 1, 130};
  const WindowRanges causal = WindowRanges::Causal(positions, 128);
  EXPECT_THAT(causal.begin, ElementsAre(0, 0, 3));
  EXPECT_THAT(causal.end, ElementsAre(1, 2, 131));
  const WindowRanges block = WindowRanges::Block(130, 2, 128);
  EXPECT_THAT(block.begin, ElementsAre(2, 2));
  EXPECT_THAT(block.end, ElementsAre(132, 132));
  EXPECT_THAT(WindowRanges::Block(5, 1, 128).begin, ElementsAre(0));
}

TEST(CacheShape, FollowsTheCheckpointsLayout) {
  const auto shape = [](const std::string& golden) {
    return CacheShapeOf(*LoadModelConfig(CACHALOT_SOURCE_DIR "/tests/golden/" + golden));
  };
  EXPECT_EQ(shape("native").kv_rounding, RowRounding::kFp8);
  EXPECT_EQ(shape("native").index_rounding, RowRounding::kFp4);
  EXPECT_EQ(shape("bf16").kv_rounding, RowRounding::kFp8);
  EXPECT_EQ(shape("w8a8").kv_rounding, RowRounding::kNone);
  EXPECT_EQ(shape("w8a8").index_rounding, RowRounding::kInt8);
  EXPECT_EQ(shape("native").num_draft_layers, 1);
  EXPECT_EQ(shape("dspark").num_draft_layers, 3);
}

}  // namespace
}  // namespace cachalot
