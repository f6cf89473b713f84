// The same request gives the same tokens and logprobs, to the bit, whatever the engine's settings
// and whatever else is going on. `make same-tokens` runs the whole matrix; the tests of every day
// run a part of it.
//
// Settings: requests at once, tokens of prompts in a step, where prefixes come from or that state has
// pages of its own, graphs, threads, forced retraction, planning ahead. Every pair of values of two settings is run together at least
// once (a pairwise cover), and, with CACHALOT_SAME_TOKENS=all, on calf and with all 200 requests.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "backends/cpu/cpu_device.h"
#include "same_tokens/requests.h"

namespace cachalot {
namespace {

enum class Prefixes : uint8_t { kNone, kCold, kWarm, kHost, kDisk };

// Where prefixes come from, and where state is kept: not all go together.
struct Kept {
  Prefixes prefixes;
  StateKind state;
};
constexpr std::array<Kept, 6> kKept = {{{Prefixes::kNone, StateKind::kRing},
                                        {Prefixes::kNone, StateKind::kPaged},
                                        {Prefixes::kCold, StateKind::kRing},
                                        {Prefixes::kWarm, StateKind::kRing},
                                        {Prefixes::kHost, StateKind::kRing},
                                        {Prefixes::kDisk, StateKind::kRing}}};

struct Settings {
  int64_t max_running;
  int64_t chunk;
  Prefixes prefixes;
  StateKind state = StateKind::kRing;
  bool graph;
  int threads;
  bool retract;
  bool plan_ahead;

  std::string Text() const {
    constexpr const char* kNames[] = {"none", "cold", "warm", "host", "disk"};
    return fmt::format(
        "max_running {} chunk {} prefixes {} paged {} graph {} threads {} retract {} plan_ahead {}",
        max_running, chunk, kNames[static_cast<size_t>(prefixes)], state == StateKind::kPaged,
        graph, threads, retract, plan_ahead);
  }
};

constexpr std::array<int, 7> kCounts = {3, 3, kKept.size(), 2, 2, 2, 2};
using Point = std::array<int, kCounts.size()>;

Settings SettingsAt(const Point& point) {
  constexpr std::array<int64_t, 3> kRunning = {1, 3, 16};
  constexpr std::array<int64_t, 3> kChunks = {128, 256, 512};
  const Kept& kept = kKept[static_cast<size_t>(point[2])];
  return {kRunning[static_cast<size_t>(point[0])],
          kChunks[static_cast<size_t>(point[1])],
          kept.prefixes,
          kept.state,
          point[3] == 1,
          point[4] + 1,
          point[5] == 1,
          point[6] == 1};
}

// Points such that every two values of different settings meet: greedily the point, out of random
// ones, with the most pairs that have not met yet.
std::vector<Point> PairwiseCover() {
  using Pair = std::array<int, 4>;
  const auto pairs_of = [](const Point& point) {
    std::vector<Pair> pairs;
    for (size_t i = 0; i < point.size(); ++i) {
      for (size_t j = i + 1; j < point.size(); ++j) {
        pairs.push_back({static_cast<int>(i), point[i], static_cast<int>(j), point[j]});
      }
    }
    return pairs;
  };
  size_t total = 0;
  for (size_t i = 0; i < kCounts.size(); ++i) {
    for (size_t j = i + 1; j < kCounts.size(); ++j) {
      total += static_cast<size_t>(kCounts[i] * kCounts[j]);
    }
  }
  std::mt19937 random(1);
  std::set<Pair> met;
  std::vector<Point> cover;
  while (met.size() < total) {
    Point best = {};
    size_t most = 0;
    for (int tries = 0; tries < 300; ++tries) {
      Point point;
      for (size_t i = 0; i < point.size(); ++i) {
        point[i] = static_cast<int>(random() % static_cast<uint32_t>(kCounts[i]));
      }
      size_t fresh = 0;
      for (const Pair& pair : pairs_of(point)) {
        fresh += met.contains(pair) ? 0 : 1;
      }
      if (fresh > most) {
        most = fresh;
        best = point;
      }
    }
    for (const Pair& pair : pairs_of(best)) {
      met.insert(pair);
    }
    cover.push_back(best);
  }
  return cover;
}

struct TestModel {
  std::string name;
  std::string folder;
};

bool RunsAll() {
  const char* value = std::getenv("CACHALOT_SAME_TOKENS");
  return value != nullptr && std::string(value) == "all";
}

std::vector<TestModel> Models() {
  const std::string source = CACHALOT_SOURCE_DIR;
  std::vector<TestModel> models = {{"native", source + "/tests/golden/native"}};
  if (RunsAll()) {
    models.push_back({"w8a8", source + "/tests/golden/w8a8"});
    models.push_back({"bf16", source + "/tests/golden/bf16"});
    models.push_back({"calf", source + "/models/calf"});
  }
  return models;
}

class SameTokens : public testing::TestWithParam<TestModel> {
 protected:
  void SetUp() override {
    const ModelConfig config = *LoadModelConfig(GetParam().folder);
    MatrixLoad load = {.vocab_size = config.vocab_size};
    load.longest = std::min<int64_t>(load.longest, config.max_position - 64);
    if (!RunsAll()) {
      load.count = 28;
      load.longest = 600;
    }
    requests_ = MakeMatrixRequests(load);
    disk_ = std::filesystem::path(testing::TempDir()) / ("same_tokens_" + GetParam().name);
    std::filesystem::remove_all(disk_);
  }
  void TearDown() override { std::filesystem::remove_all(disk_); }

  void Open(const Settings& settings, int64_t cache_tokens) {
    engine_.reset();
    device_ = *cpu::NewCpuDevice({.num_threads = settings.threads, .isa = {}});
    ModelConfig config = *LoadModelConfig(GetParam().folder);
    Weights weights = *Weights::Load(GetParam().folder, config);
    EngineOptions options;
    options.max_running = settings.max_running;
    options.max_context = std::min<int64_t>(config.max_position, 4096);
    options.chunked_prefill_size = settings.chunk;
    options.prefix_cache = settings.prefixes != Prefixes::kNone;
    options.state = settings.state;
    options.graph = settings.graph;
    options.plan_ahead = settings.plan_ahead;
    options.cache_tokens = cache_tokens;
    if (settings.prefixes == Prefixes::kHost || settings.prefixes == Prefixes::kDisk) {
      options.host_cache_bytes = 512 << 20;
    }
    if (settings.prefixes == Prefixes::kDisk) {
      options.disk_cache_folder = disk_;
      options.disk_cache_bytes = int64_t{2} << 30;
    }
    if (settings.retract) {
      options.before_plan = [random = std::mt19937(5)](Scheduler& scheduler) mutable {
        if (random() % 7 == 0) {
          const auto running = scheduler.running();
          if (!running.empty()) {
            scheduler.Retract(running[random() % running.size()]);
          }
        }
      };
    }
    auto engine = Engine::New(*device_, std::move(config), std::move(weights), options);
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
  }

  std::vector<MatrixAnswer> Ask() { return Answer(*engine_, requests_); }

  std::vector<MatrixRequest> requests_;
  std::filesystem::path disk_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Engine> engine_;  // uses the device
};

TEST_P(SameTokens, WhateverTheSettings) {
  Open({.max_running = 1, .chunk = 512, .prefixes = Prefixes::kNone, .threads = 1}, 8192);
  const std::vector<MatrixAnswer> alone = Ask();
  for (const Point& point : PairwiseCover()) {
    const Settings settings = SettingsAt(point);
    SCOPED_TRACE(settings.Text());
    // Too small for all that is asked where tiers below are to be used.
    const bool tiers = settings.prefixes >= Prefixes::kHost;
    Open(settings, tiers ? 5120 : 40960);
    ASSERT_EQ(Difference(requests_, alone, Ask()), "");
    if (settings.prefixes >= Prefixes::kWarm) {
      if (settings.prefixes == Prefixes::kDisk) {
        Open(settings, 5120);  // a restart: nothing is left but the disk
      }
      ASSERT_EQ(Difference(requests_, alone, Ask()), "") << "the second time";
    }
    const EngineStats stats = engine_->stats();
    std::printf(
        "%s: %s, cached %lld of %lld, from host %lld, from disk %lld, retractions %lld, replays "
        "%lld\n",
        GetParam().name.c_str(), settings.Text().c_str(),
        static_cast<long long>(stats.scheduler.cached_tokens),
        static_cast<long long>(stats.scheduler.prompt_tokens),
        static_cast<long long>(stats.prefix.from_host),
        static_cast<long long>(stats.prefix.from_disk),
        static_cast<long long>(stats.scheduler.retractions),
        static_cast<long long>(stats.graph.replays));
    EXPECT_EQ(engine_->LeakReport(), "");
  }
}

std::string NameOfModel(const testing::TestParamInfo<TestModel>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Models, SameTokens, testing::ValuesIn(Models()), NameOfModel);

}  // namespace
}  // namespace cachalot
