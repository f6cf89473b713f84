#include "cli/send_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "cli/engine_flags.h"

namespace cachalot {
namespace {

constexpr char kFolder[] = CACHALOT_SOURCE_DIR "/tests/golden/native";

struct TestEngine {
  std::unique_ptr<Device> device;
  std::unique_ptr<Engine> engine;
};

TestEngine NewEngine(const EngineFlags& flags) {
  TestEngine test;
  test.device = *OpenDevice({.num_threads = 1});
  ModelFlags model;
  model.folder = kFolder;
  test.engine = *OpenEngine(*test.device, model, flags);
  return test;
}

std::vector<LoadRequest> SomeLoad(double rate) {
  LoadOptions options;
  options.num_requests = 12;
  options.rate = rate;
  options.input = *ParseLengthDistribution("5-150", "");
  options.output = *ParseLengthDistribution("1-6", "");
  options.vocab_size = LoadModelConfig(kFolder)->vocab_size;
  return MakeLoad(options);
}

TEST(SendLoad, RecordsEachRequestAsItWent) {
  const TestEngine test = NewEngine({.max_running = 4, .context = 256});
  const std::vector<LoadRequest> load = SomeLoad(1000);
  int64_t most_ended = 0;
  const auto records = SendLoad(*test.engine, load, 0, [&](int64_t ended, int64_t total) {
    most_ended = std::max(most_ended, ended);
    EXPECT_EQ(total, 12);
  });
  EXPECT_LT(most_ended, 12);
  ASSERT_EQ(records.size(), load.size());
  for (size_t i = 0; i < load.size(); ++i) {
    EXPECT_TRUE(records[i].ok);
    EXPECT_EQ(records[i].prompt_tokens, static_cast<int64_t>(load[i].prompt.size()));
    EXPECT_EQ(records[i].output_tokens(), load[i].output_tokens);
    EXPECT_EQ(records[i].arrival, load[i].arrival);
    EXPECT_GT(records[i].token_times.front(), records[i].arrival);
    EXPECT_TRUE(std::ranges::is_sorted(records[i].token_times));
    EXPECT_GE(records[i].end, records[i].token_times.back());
  }
}

TEST(SendLoad, HoldsRequestsBackUntilOthersHaveEnded) {
  const TestEngine test = NewEngine({.max_running = 4, .context = 256});
  const auto records = SendLoad(*test.engine, SomeLoad(HUGE_VAL), 2, [](int64_t, int64_t) {});
  for (size_t i = 2; i < records.size(); ++i) {
    const auto ended = std::ranges::count_if(
        records, [&](const RequestRecord& other) { return other.end <= records[i].arrival; });
    EXPECT_GE(ended, static_cast<int64_t>(i) - 1);
  }
  test.engine->Drain();
  EXPECT_LE(test.engine->stats().scheduler.peak_running, 2);
}

TEST(SendLoad, CountsWhatIsRefusedAsFailed) {
  const TestEngine test = NewEngine({.max_running = 4, .context = 4});
  const auto records = SendLoad(*test.engine, SomeLoad(HUGE_VAL), 0, [](int64_t, int64_t) {});
  for (const RequestRecord& record : records) {
    EXPECT_FALSE(record.ok);
    EXPECT_GE(record.end, record.arrival);
  }
}

TEST(SendLoad, CountsAnAnswerThatWasCutShortAsFailed) {
  const TestEngine test = NewEngine({.max_running = 4, .context = 64});
  const auto records =
      SendLoad(*test.engine, {{0, {1, 2, 3}, 61}, {0, {1, 2, 3}, 62}}, 0, [](int64_t, int64_t) {});
  EXPECT_TRUE(records[0].ok);
  EXPECT_FALSE(records[1].ok);
}

}  // namespace
}  // namespace cachalot
