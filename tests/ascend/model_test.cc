// A small model on the emulated NPU: near the CPU, and the same bits whenever work runs, by graph or
// as it is issued, on any number of cores, however texts are cut into steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/ascend/emulated_device.h"
#include "backends/cpu/cpu_device.h"
#include "cache/cache_allocator.h"
#include "engine/cache_plan.h"
#include "engine/executor.h"
#include "engine/runner.h"
#include "model/place_weights.h"
#include "numeric/difference.h"

namespace cachalot {
namespace {

using ascend::AscendOptions;
using ascend::Emulator;

std::string Golden(const std::string& name) { return CACHALOT_SOURCE_DIR "/tests/golden/" + name; }

std::vector<int32_t> Text(int64_t count, int64_t seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>((i * i * 7 + i * 13 + seed * 31) % 250 + 3));
  }
  return ids;
}

// An executor with an allocator, and what its steps gave.
class Steps {
 public:
  Steps(Device& device, const std::string& golden, bool graph, StateKind state = StateKind::kRing) {
    const ExecutorOptions options = {.max_context = 768,
                                     .max_requests = 4,
                                     .max_step_tokens = 512,
                                     .graph = graph,
                                     .capture_sizes = {1, 4}};
    ModelConfig config = *LoadModelConfig(Golden(golden));
    Weights weights = *Weights::Load(Golden(golden), config);
    const CacheShape shape = CacheShapeOf(ConfigOn(device, config));
    const CachePlan plan = *PlanForTokens(
        shape, RowLayoutsOf(device, shape), {.max_requests = 4, .step_tokens = 512, .state = state},
        4 * 768, WindowTokensFor(shape, 4, options.max_step_tokens));
    auto executor = Executor::New(device, std::move(config), std::move(weights), plan, options);
    EXPECT_TRUE(executor) << executor.error().message;
    executor_.emplace(*std::move(executor));
    cache_.emplace(plan.geometry);
  }

  RequestSlot Open() {
    const RequestSlot slot = *cache_->TakeRequest();
    executor_->pools().ClearRequest(executor_->stream(), slot);
    return slot;
  }

  struct Part {
    RequestSlot slot;
    std::vector<int32_t> ids;
  };
  void Step(const std::vector<Part>& parts) {
    std::vector<StepRequest> steps;
    std::vector<Growth> growths;
    std::vector<int32_t> ids;
    for (const auto& [slot, tokens] : parts) {
      const auto count = static_cast<int64_t>(tokens.size());
      steps.push_back({slot, TokenPos(static_cast<int32_t>(cache_->length(slot))), count});
      growths.push_back({.slot = slot, .num_tokens = count});
      ids.insert(ids.end(), tokens.begin(), tokens.end());
      cache_->EvictPast(slot, cache_->length(slot));
    }
    ASSERT_TRUE(cache_->Extend(growths));
    std::vector<int32_t> rows(ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    executor_->Forward(std::move(ids), BuildStepTables(*cache_, steps));
    std::vector<float> of_step;
    const Status status = executor_->Logits(rows, &of_step);
    ASSERT_TRUE(status) << status.error().message;
    logits.insert(logits.end(), of_step.begin(), of_step.end());
  }

  int64_t vocab() const { return executor_->config().vocab_size; }
  const GraphStats& graph_stats() const { return executor_->graph_stats(); }
  std::vector<float> logits;  // of all tokens, in the order of the steps

 private:
  std::optional<Executor> executor_;
  std::optional<CacheAllocator> cache_;
};

// Texts that begin, go on, join and leave: prefills in two parts, then tokens one by one.
std::vector<float> Play(Device& device, const std::string& golden, bool graph, int64_t decoded = 9,
                        StateKind state = StateKind::kRing) {
  Steps run(device, golden, graph, state);
  const RequestSlot a = run.Open();
  const std::vector<int32_t> text = Text(260, 1);
  run.Step({{a, {text.begin(), text.begin() + 190}}});
  const RequestSlot b = run.Open();
  run.Step({{a, {text.begin() + 190, text.end()}}, {b, Text(17, 2)}});
  for (int64_t i = 0; i < decoded; ++i) {
    if (i % 3 == 2) {
      run.Step({{a, Text(1, i)}});
    } else {
      run.Step({{b, Text(1, 7 * i)}, {a, Text(1, i)}});
    }
  }
  if (graph) {
    EXPECT_GE(run.graph_stats().replays, 1);
  }
  return std::move(run.logits);
}

std::vector<float> PlayOnNpu(const Emulator::Settings& settings, const AscendOptions& options = {},
                             const std::string& golden = "w8a8", bool graph = false,
                             int64_t decoded = 9, StateKind state = StateKind::kRing) {
  const Emulator emulator(settings);
  Result<std::unique_ptr<Device>> device = emulator.Open(options);
  EXPECT_TRUE(device) << device.error().message;
  return Play(**device, golden, graph, decoded, state);
}

double MedianRowError(const std::vector<float>& found, const std::vector<float>& wanted,
                      size_t width) {
  std::vector<double> errors;
  for (size_t row = 0; row + width <= wanted.size(); row += width) {
    errors.push_back(
        RelativeError(std::span(found).subspan(row, width), std::span(wanted).subspan(row, width)));
  }
  std::ranges::nth_element(errors, errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2));
  return errors[errors.size() / 2];
}

AscendOptions Verified() {
  AscendOptions options;
  options.stream.verify_steps = true;
  return options;
}

TEST(AscendModel, IsNearTheCpu) {
  const auto cpu = *cpu::NewCpuDevice({.num_threads = 2, .isa = {}});
  const std::vector<float> wanted = Play(*cpu, "w8a8", false);
  AscendOptions composed = Verified();
  composed.stream.ops.fused_compressor = false;
  const struct {
    const char* name;
    const char* flavour;
    AscendOptions options;
  } cases[] = {{"custom", "custom", Verified()},
               {"custom, composed compressor", "custom", composed},
               {"official", "official", Verified()}};
  for (const auto& [name, flavour, options] : cases) {
    SCOPED_TRACE(name);
    const std::vector<float> found = PlayOnNpu({{"flavour", flavour}}, options);
    ASSERT_EQ(found.size(), wanted.size());
    const double error = MedianRowError(found, wanted, 256);
    RecordProperty(name, std::to_string(error));
    std::printf("%s: median error of a row of logits %.4f\n", name, error);
    EXPECT_GT(error, 1e-4);
    EXPECT_LT(error, 5e-2);
  }
}

TEST(AscendModel, GivesTheSameBitsWheneverItsWorkRuns) {
  constexpr int64_t kDecoded = 3;
  const auto play = [&](const char* flavour, Emulator::Settings settings,
                        const AscendOptions& options = {}, bool graph = false) {
    settings.emplace_back("flavour", flavour);
    return PlayOnNpu(settings, options, "w8a8", graph, kDecoded);
  };
  AscendOptions device_schedules;
  device_schedules.stream.host_schedules = false;
  for (const char* flavour : {"custom", "official"}) {
    SCOPED_TRACE(flavour);
    const std::vector<float> eager = play(flavour, {{"schedule", "eager"}});
    EXPECT_EQ(play(flavour, {{"schedule", "lazy"}}), eager);
    EXPECT_EQ(play(flavour, {{"schedule", "random"}, {"seed", "5"}}, device_schedules), eager);
    EXPECT_EQ(play(flavour, {{"schedule", "lazy"}, {"cores", "20"}}, {}, true), eager);
    EXPECT_EQ(play(flavour, {{"seed", "6"}}, Verified(), true), eager);
  }
}

// The vendor's compressor takes rings by a table of rows, and pages by their own; the official one
// pages alone.
TEST(AscendModel, GivesTheSameBitsWithStateInPages) {
  constexpr int64_t kDecoded = 3;
  AscendOptions composed = Verified();
  composed.stream.ops.fused_compressor = false;
  const auto play = [&](const char* flavour, const AscendOptions& options, bool graph,
                        StateKind state) {
    return PlayOnNpu({{"flavour", flavour}}, options, "w8a8", graph, kDecoded, state);
  };
  for (const bool graph : {false, true}) {
    EXPECT_EQ(play("custom", Verified(), graph, StateKind::kPaged),
              play("custom", Verified(), graph, StateKind::kRing));
    EXPECT_EQ(play("custom", composed, graph, StateKind::kPaged),
              play("custom", composed, graph, StateKind::kRing));
    EXPECT_EQ(play("official", composed, graph, StateKind::kPaged),
              play("official", composed, graph, StateKind::kRing));
  }
  const std::vector<float> official = play("official", Verified(), false, StateKind::kPaged);
  EXPECT_EQ(play("official", Verified(), true, StateKind::kPaged), official);
  EXPECT_LT(MedianRowError(official, play("custom", Verified(), false, StateKind::kRing), 256),
            2e-2);
}

TEST(AscendModel, GivesTheSameBitsHoweverATextIsCut) {
  const std::vector<int32_t> text = Text(270, 3);
  std::vector<std::vector<float>> logits;
  for (const std::vector<size_t>& cuts :
       {std::vector<size_t>{270}, {1, 130, 131, 270}, {127, 128, 200, 270}}) {
    const Emulator emulator({});
    const std::unique_ptr<Device> device = *emulator.Open();
    Steps run(*device, "w8a8", false);
    const RequestSlot slot = run.Open();
    size_t begin = 0;
    for (const size_t end : cuts) {
      const auto at = [&](size_t i) { return text.begin() + static_cast<std::ptrdiff_t>(i); };
      run.Step({{slot, {at(begin), at(end)}}});
      begin = end;
    }
    logits.push_back(std::move(run.logits));
  }
  EXPECT_EQ(logits[1], logits[0]);
  EXPECT_EQ(logits[2], logits[0]);
}

// The draft layers: an MTP block over the step's tokens, and a block of DSpark drafts.
TEST(AscendModel, DraftsNearTheCpu) {
  const auto cpu = *cpu::NewCpuDevice({.num_threads = 2, .isa = {}});
  const auto draft = [](Device& device, const char* golden) {
    ModelConfig config = *LoadModelConfig(Golden(golden));
    Weights weights = *Weights::Load(Golden(golden), config);
    const bool dspark = config.dspark.has_value();
    ModelRunner runner = *ModelRunner::New(device, std::move(config), std::move(weights),
                                           {.max_context = 512, .draft_context = true});
    const RequestSlot slot = *runner.Open();
    const std::vector<int32_t> ids = Text(150, 4);
    const RequestTokens tokens = {slot, ids};
    EXPECT_TRUE(runner.Forward({&tokens, 1}));
    std::vector<float> logits;
    if (dspark) {
      const auto found = runner.DraftBlock(slot, 7);
      EXPECT_TRUE(found) << found.error().message;
      return found ? found->logits : logits;
    }
    const std::vector<int32_t> next = Text(150, 5);
    EXPECT_TRUE(runner.ForwardMtp(slot, next));
    const Status status = runner.MtpLogits(0, 150, &logits);
    EXPECT_TRUE(status) << status.error().message;
    return logits;
  };
  for (const char* golden : {"w8a8", "dspark"}) {
    SCOPED_TRACE(golden);
    const std::vector<float> wanted = draft(*cpu, golden);
    const Emulator emulator({});
    const std::unique_ptr<Device> device = *emulator.Open(Verified());
    const double error = MedianRowError(draft(*device, golden), wanted, 256);
    std::printf("draft of %s: median error of a row of logits %.4f\n", golden, error);
    EXPECT_LT(error, 0.1);
  }
}

TEST(AscendModel, RunsCheckpointsOfOtherLayoutsConverted) {
  const auto cpu = *cpu::NewCpuDevice({.num_threads = 2, .isa = {}});
  for (const char* golden : {"native", "bf16"}) {
    SCOPED_TRACE(golden);
    const std::vector<float> found = PlayOnNpu({}, {}, golden, false, 1);
    const double error = MedianRowError(found, Play(*cpu, golden, false, 1), 256);
    std::printf("%s: median error of a row of logits %.4f\n", golden, error);
    EXPECT_LT(error, 0.25);
  }
}

}  // namespace
}  // namespace cachalot
