// Steps by graph against the same steps as they are issued, over small checkpoints: the same bits,
// in the logits and in the caches, whatever a step is padded to.
#include "engine/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "backends/cpu/cpu_device.h"
#include "cache/cache_allocator.h"
#include "engine/cache_plan.h"
#include "engine/step_checking_device.h"

namespace cachalot {
namespace {

using testing::ElementsAre;

constexpr int64_t kMaxContext = 2304;
constexpr int64_t kMaxRequests = 8;

std::string Golden(const std::string& name) { return CACHALOT_SOURCE_DIR "/tests/golden/" + name; }

ExecutorOptions Eager(const std::string& golden) {
  return {.max_context = kMaxContext,
          .max_requests = kMaxRequests,
          .draft_context = golden == "dspark"};
}

ExecutorOptions ByGraph(const std::string& golden, std::vector<int64_t> sizes) {
  ExecutorOptions options = Eager(golden);
  options.graph = true;
  options.capture_sizes = std::move(sizes);
  return options;
}

CachePlan PlanOf(const Device& device, const ModelConfig& config, const ExecutorOptions& options,
                 StateKind state = StateKind::kRing) {
  const CacheShape shape = CacheShapeOf(config);
  return *PlanForTokens(shape, RowLayoutsOf(device, shape),
                        {.max_requests = options.max_requests,
                         .step_tokens = options.max_step_tokens,
                         .state = state},
                        options.max_requests * options.max_context,
                        WindowTokensFor(shape, options.max_requests, options.max_step_tokens));
}

Result<Executor> NewExecutor(Device& device, const std::string& golden,
                             const ExecutorOptions& options, StateKind state = StateKind::kRing) {
  ModelConfig config = *LoadModelConfig(Golden(golden));
  Weights weights = *Weights::Load(Golden(golden), config);
  const CachePlan plan = PlanOf(device, config, options, state);
  return Executor::New(device, std::move(config), std::move(weights), plan, options);
}

std::vector<int32_t> SomeIds(int64_t count, int64_t seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>((i * i * 7 + i * 13 + seed * 31) % 250 + 3));
  }
  return ids;
}

std::unique_ptr<Device> NewCpu() { return *cpu::NewCpuDevice({.num_threads = 2, .isa = {}}); }

// An executor and an allocator. Runs with the same calls have the same pages.
class Machine {
 public:
  Machine(const std::string& golden, const ExecutorOptions& options,
          StateKind state = StateKind::kRing, std::unique_ptr<Device> device = NewCpu())
      : device_(std::move(device)),
        executor_(*NewExecutor(*device_, golden, options, state)),
        cache_(PlanOf(*device_, executor_.config(), options, state).geometry) {}

  Executor& executor() { return executor_; }
  const CacheAllocator& cache() const { return cache_; }
  int64_t length(RequestSlot slot) const { return cache_.length(slot); }

  RequestSlot Open() {
    const RequestSlot slot = *cache_.TakeRequest();
    executor_.pools().ClearRequest(executor_.stream(), slot);
    return slot;
  }
  void Close(RequestSlot slot) { cache_.Free(slot); }

  // Opens a request and runs ids before any other step of it.
  RequestSlot Prefill(const std::vector<int32_t>& ids, size_t chunk = 512) {
    const RequestSlot slot = Open();
    for (size_t begin = 0; begin < ids.size(); begin += chunk) {
      const size_t end = std::min(begin + chunk, ids.size());
      Step({{slot, {ids.data() + begin, ids.data() + end}}});
    }
    return slot;
  }

  struct Part {
    RequestSlot slot;
    std::vector<int32_t> ids;
  };

  // Logits of all the step's tokens.
  std::vector<float> Step(const std::vector<Part>& parts) {
    std::vector<StepRequest> steps;
    std::vector<Growth> growths;
    std::vector<int32_t> ids;
    for (const Part& part : parts) {
      const auto count = static_cast<int64_t>(part.ids.size());
      steps.push_back({part.slot, TokenPos(static_cast<int32_t>(length(part.slot))), count});
      growths.push_back({.slot = part.slot, .num_tokens = count});
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
      cache_.EvictPast(part.slot, length(part.slot));
    }
    EXPECT_TRUE(cache_.Extend(growths));
    std::vector<int32_t> rows(ids.size());
    std::iota(rows.begin(), rows.end(), 0);
    executor_.Forward(std::move(ids), BuildStepTables(cache_, steps));
    std::vector<float> logits;
    EXPECT_TRUE(executor_.Logits(rows, &logits));
    return logits;
  }

  // Room for tokens that are not run.
  StepRequest Grow(RequestSlot slot, int64_t count) {
    const StepRequest step = {slot, TokenPos(static_cast<int32_t>(length(slot))), count};
    EXPECT_TRUE(cache_.Extend(std::vector<Growth>{{.slot = slot, .num_tokens = count}}));
    return step;
  }

  // One token for each.
  std::vector<float> Decode(const std::vector<RequestSlot>& slots) {
    std::vector<Part> parts;
    for (const RequestSlot slot : slots) {
      parts.push_back({slot, SomeIds(1, length(slot) + 5 * slot.value)});
    }
    return Step(parts);
  }

  // What every pool holds, page 0 left out.
  std::vector<std::string> CacheBytes(bool with_state = true) const {
    std::vector<std::string> bytes;
    const auto add = [&](void* data, int64_t page_bytes, int64_t total_bytes) {
      bytes.emplace_back(static_cast<const char*>(data) + page_bytes,
                         static_cast<size_t>(total_bytes - page_bytes));
    };
    ForEachRowPool(add);
    if (with_state) {
      ForEachState(add);
    }
    return bytes;
  }

  // Large finite values in every format: 2^97 and more as float32 and bfloat16, 128 as e4m3.
  void PoisonPageZero() {
    const auto poison = [](void* data, int64_t page_bytes, int64_t) {
      std::memset(data, 0x70, static_cast<size_t>(page_bytes));
    };
    ForEachRowPool(poison);
    ForEachState(poison);
  }

 private:
  // The CPU's pools are in host memory.
  template <typename Visit>
  void ForEachRowPool(const Visit& visit) const {
    for (const LayerCache& cache : executor_.layer_caches()) {
      const auto rows = [&](const RowPool& pool, int64_t page_rows) {
        if (!pool.empty()) {
          visit(pool.data, page_rows * pool.layout.bytes(), pool.num_rows * pool.layout.bytes());
        }
      };
      rows(cache.window, cache.window_page_rows);
      rows(cache.entries, cache.page_entries);
      rows(cache.index_keys, cache.page_entries);
    }
  }

  template <typename Visit>
  void ForEachState(const Visit& visit) const {
    for (const LayerCache& cache : executor_.layer_caches()) {
      for (const Tensor& state : {cache.state.attn, cache.state.index}) {
        if (!state.empty()) {
          const Tensor page = state.Rows(0, cache.state.state_rows);
          visit(state.data, page.bytes(), state.bytes());
        }
      }
    }
  }

  std::unique_ptr<Device> device_;
  Executor executor_;
  CacheAllocator cache_;
};

class GraphSteps : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Checkpoints, GraphSteps, testing::Values("native", "bf16", "dspark"));

TEST_P(GraphSteps, EqualThoseOfNoGraphWhateverTheyArePaddedTo) {
  std::vector<std::vector<std::vector<float>>> logits;
  std::vector<std::vector<std::string>> caches;
  const std::vector<ExecutorOptions> ways = {Eager(GetParam()), ByGraph(GetParam(), {8}),
                                             ByGraph(GetParam(), {})};
  for (const ExecutorOptions& options : ways) {
    Machine machine(GetParam(), options);
    auto& found = logits.emplace_back();
    std::vector<RequestSlot> slots;
    for (int64_t i = 0; i < kMaxRequests; ++i) {
      slots.push_back(machine.Prefill(SomeIds(i == 2 ? 140 : 3 + 5 * i, i)));
    }
    found.push_back(machine.Decode(slots));  // records where graphs are on
    found.push_back(machine.Decode({slots[2], slots[5], slots[0]}));
    found.push_back(machine.Decode({slots[1], slots[2], slots[3], slots[4], slots[6]}));
    found.push_back(machine.Decode({slots[7], slots[2], slots[1]}));
    caches.push_back(machine.CacheBytes());

    const GraphStats& stats = machine.executor().graph_stats();
    EXPECT_EQ(stats.captures + stats.replays, options.graph ? 4 : 0);
    if (options.capture_sizes == std::vector<int64_t>{8}) {
      EXPECT_EQ(stats.captures, 1);
      EXPECT_EQ(stats.padded_rows, 5 + 3 + 5);
    } else if (options.graph) {
      EXPECT_EQ(stats.captures, 3);  // of 8, 3 and 5
      EXPECT_EQ(stats.padded_rows, 0);
    }
  }
  for (size_t way = 1; way < ways.size(); ++way) {
    EXPECT_TRUE(logits[way] == logits[0]) << "way " << way;
    EXPECT_TRUE(caches[way] == caches[0]) << "way " << way;
  }
}

// State in pages, decoding by graph, against rings without: the same logits, window rows, entries and
// keys.
TEST_P(GraphSteps, OfPagedStateEqualThoseOfRingsWhateverTheChunks) {
  Machine rings(GetParam(), Eager(GetParam()));
  Machine paged(GetParam(), ByGraph(GetParam(), {8}), StateKind::kPaged);
  std::vector<RequestSlot> slots;
  for (const size_t chunk : {512U, 128U, 256U, 384U, 100U}) {
    const std::vector<int32_t> ids = SomeIds(chunk == 384 ? 515 : 387, 3);
    slots.push_back(rings.Prefill(ids, chunk));
    EXPECT_EQ(paged.Prefill(ids, chunk), slots.back());
    paged.PoisonPageZero();
  }
  const auto decode = [&](int steps) {
    for (int step = 0; step < steps; ++step) {
      EXPECT_TRUE(rings.Decode(slots) == paged.Decode(slots)) << "step " << step;
    }
  };
  decode(3);
  // On from where they are, as a conversation goes on, then over the end of a group.
  const std::vector<Machine::Part> more = {{slots[1], SomeIds(140, 1)}, {slots[3], SomeIds(3, 2)}};
  EXPECT_TRUE(rings.Step(more) == paged.Step(more));
  decode(5);
  EXPECT_TRUE(rings.CacheBytes(false) == paged.CacheBytes(false));
}

TEST(Executor, ReplaysOverGrowingContextsAndSlotsThatOthersHeld) {
  ExecutorOptions options = ByGraph("native", {4});
  options.max_requests = 2;
  Machine graph("native", options);
  options.graph = false;
  Machine eager("native", options);
  const auto both = [&](const auto& call) {
    const auto wanted = call(eager);
    EXPECT_TRUE(call(graph) == wanted);
    return wanted;
  };
  const auto prefill = [&](int64_t tokens, int64_t seed) {
    return both([&](Machine& machine) { return machine.Prefill(SomeIds(tokens, seed)); });
  };
  // Over the end of a page of tokens, and over that of a page of 16 entries for 128 tokens.
  const RequestSlot shorter = prefill(125, 1);
  const RequestSlot longer = prefill(2045, 2);
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    both([&](Machine& machine) { return machine.Decode({shorter, longer}); });
  }
  // Another request has the slot of the longer one, and its rows of the tables, in which it uses
  // fewer pages.
  both([&](Machine& machine) {
    machine.Close(longer);
    return 0;
  });
  const RequestSlot other = prefill(130, 3);
  EXPECT_EQ(other, longer);
  for (int i = 0; i < 3; ++i) {
    both([&](Machine& machine) { return machine.Decode({other}); });
    both([&](Machine& machine) { return machine.Decode({shorter, other}); });
  }
  EXPECT_TRUE(graph.CacheBytes() == eager.CacheBytes());
  EXPECT_EQ(graph.executor().graph_stats().replays, 11);
}

TEST(Executor, ReadsNothingOfPageZero) {
  Machine eager("native", Eager("native"));
  Machine graph("native", ByGraph("native", {8}));
  Machine poisoned("native", ByGraph("native", {8}));
  Machine poisoned_pages("native", ByGraph("native", {8}), StateKind::kPaged);
  const std::vector<Machine*> machines = {&eager, &graph, &poisoned, &poisoned_pages};
  std::vector<RequestSlot> slots;
  for (int64_t i = 0; i < 3; ++i) {
    for (Machine* machine : machines) {
      const RequestSlot slot = machine->Prefill(SomeIds(100 + 200 * i, i));
      if (machine == &eager) {
        slots.push_back(slot);
      }
    }
  }
  for (int step = 0; step < 4; ++step) {
    poisoned.PoisonPageZero();
    poisoned_pages.PoisonPageZero();
    const auto wanted = eager.Decode(slots);
    EXPECT_TRUE(graph.Decode(slots) == wanted) << "step " << step;
    EXPECT_TRUE(poisoned.Decode(slots) == wanted) << "step " << step;
    EXPECT_TRUE(poisoned_pages.Decode(slots) == wanted) << "step " << step;
  }
  EXPECT_TRUE(graph.CacheBytes() == eager.CacheBytes());
  EXPECT_TRUE(poisoned.CacheBytes() == eager.CacheBytes());
}

TEST(Executor, PassesAnIdleStep) {
  for (const char* golden : {"native", "dspark"}) {
    for (const bool by_graph : {false, true}) {
      Machine machine(golden, by_graph ? ByGraph(golden, {}) : Eager(golden));
      const RequestSlot slot = machine.Prefill(SomeIds(9, 1));
      const auto before = machine.CacheBytes();
      EXPECT_THAT(machine.Step({}), ElementsAre());
      EXPECT_EQ(machine.executor().num_tokens(), 0);
      EXPECT_TRUE(machine.CacheBytes() == before);
      EXPECT_EQ(machine.Decode({slot}).size(), 256U);
    }
  }
}

TEST(Executor, TakesStepsOfMoreThanATokenOrTooManyRequestsAsTheyAre) {
  Machine machine("native", ByGraph("native", {1, 2}));
  std::vector<RequestSlot> slots;
  for (int64_t i = 0; i < 3; ++i) {
    slots.push_back(machine.Prefill(SomeIds(4, i)));
  }
  const GraphStats& stats = machine.executor().graph_stats();
  EXPECT_EQ(stats.eager_steps, 3);
  machine.Decode(slots);
  machine.Step({{slots[0], SomeIds(2, 0)}, {slots[1], {}}});  // two tokens, but of one request
  machine.Step({{slots[0], {}}, {slots[1], SomeIds(2, 0)}});
  EXPECT_EQ(stats.eager_steps, 6);
  machine.Decode({slots[2], slots[0]});
  EXPECT_EQ(stats.eager_steps, 6);
  EXPECT_EQ(stats.captures, 1);
}

TEST(Executor, RunsTheMtpBlockAfterAReplay) {
  std::vector<std::vector<float>> logits;
  for (const ExecutorOptions& options : {Eager("native"), ByGraph("native", {4})}) {
    Machine machine("native", options);
    const RequestSlot slot = machine.Prefill(SomeIds(20, 1));
    for (int i = 0; i < 3; ++i) {
      machine.Decode({slot});
      EXPECT_EQ(machine.executor().num_tokens(), 1);
      const StepRequest step = {slot, TokenPos(static_cast<int32_t>(machine.length(slot)) - 1), 1};
      machine.executor().ForwardMtp({7}, BuildStepTables(machine.cache(), {&step, 1}));
      const std::vector<int32_t> rows = {0};
      ASSERT_TRUE(machine.executor().MtpLogits(rows, &logits.emplace_back()));
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(logits[i], logits[i + 3]);
  }
}

TEST(Executor, TellsTheDeviceOfEveryStepBeforeItsOperators) {
  StepLog log;
  Machine machine("native", ByGraph("native", {4}), StateKind::kRing,
                  std::make_unique<StepCheckingDevice>(NewCpu(), log));
  const RequestSlot one = machine.Prefill(SomeIds(600, 1));
  const RequestSlot other = machine.Prefill(SomeIds(130, 2));
  EXPECT_EQ(log.steps, 3);
  for (int i = 0; i < 3; ++i) {
    machine.Decode({one, other});
  }
  EXPECT_EQ(log.steps, 6);
  EXPECT_EQ(log.replays, 2);
  EXPECT_EQ(log.of_drafts, 0);
  const StepRequest step = {other, TokenPos(static_cast<int32_t>(machine.length(other)) - 1), 1};
  machine.executor().ForwardMtp({7}, BuildStepTables(machine.cache(), {&step, 1}));
  EXPECT_EQ(log.of_drafts, 1);
  const std::vector<int64_t>& ratios = machine.executor().config().compress_ratios;
  const int64_t c4_layers = std::ranges::count(ratios, 4);
  const int64_t c128_layers = std::ranges::count(ratios, 128);
  EXPECT_EQ(log.attentions, 6 * machine.executor().config().num_layers + 1);
  EXPECT_EQ(log.compressors, 6 * (2 * c4_layers + c128_layers));
  EXPECT_EQ(log.indexers, 6 * c4_layers);
}

TEST(Executor, TellsTheDeviceOfADraftBlock) {
  StepLog log;
  Machine machine("dspark", Eager("dspark"), StateKind::kRing,
                  std::make_unique<StepCheckingDevice>(NewCpu(), log));
  const RequestSlot slot = machine.Prefill(SomeIds(150, 1));
  const int64_t block = machine.executor().config().dspark->block_size;
  const int64_t before = log.attentions;
  const StepRequest step = machine.Grow(slot, block);
  ASSERT_TRUE(machine.executor().DraftBlock(5, BuildStepTables(machine.cache(), {&step, 1})));
  EXPECT_EQ(log.of_drafts, 1);
  EXPECT_EQ(log.attentions - before, machine.executor().config().dspark->num_stages);
}

TEST(Executor, RefusesSizesOfGraphsThatNoStepHas) {
  const auto device = *cpu::NewCpuDevice({});
  const auto message = [&](std::vector<int64_t> sizes, int64_t step_tokens) {
    ExecutorOptions options = ByGraph("native", std::move(sizes));
    options.max_step_tokens = step_tokens;
    const auto executor = NewExecutor(*device, "native", options);
    return executor ? "" : executor.error().message;
  };
  EXPECT_EQ(message({1, 2, 128}, 512), "");
  EXPECT_EQ(message({0}, 512), "a graph of 0 requests asked for, expected 1 to 128");
  EXPECT_EQ(message({4, 4}, 512), "a graph of 4 requests asked for, expected 5 to 128");
  EXPECT_EQ(message({1, 129}, 512), "a graph of 129 requests asked for, expected 2 to 128");
  EXPECT_EQ(message({16}, 8), "a graph of 16 requests asked for, but a step has at most 8 tokens");
}

TEST(DefaultCaptureSizes, RiseToTheMost) {
  EXPECT_THAT(DefaultCaptureSizes(1), ElementsAre(1));
  EXPECT_THAT(DefaultCaptureSizes(6), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(DefaultCaptureSizes(18), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 18));
  EXPECT_THAT(DefaultCaptureSizes(48),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 28, 32, 40, 48));
}

// Tables of two requests, of `pages` pages each.
StepTables TablesOf(int32_t pages) {
  StepTables tables;
  tables.num_requests = 2;
  tables.num_tokens = 2;
  tables.query_starts = {0, 1, 2};
  tables.start_pos = {10 * pages, 20 * pages};
  tables.positions = tables.start_pos;
  tables.window_slots = {pages, pages + 1};
  tables.c4_slots = {pages, 0};
  tables.c128_slots = {0, 0};
  PageTable table = {2, pages, std::vector<int32_t>(static_cast<size_t>(2 * pages))};
  std::iota(table.values.begin(), table.values.end(), 1);
  tables.window_pages = table;
  tables.c4_pages = table;
  tables.c4_state_pages = table;
  tables.c128_pages = {2, 1, {pages, 0}};
  tables.c128_state_pages = {2, 1, {1, 2}};
  return tables;
}

std::vector<Tensor> FieldsOf(const Batch& batch) {
  return {batch.ids,          batch.positions,       batch.requests.query_starts,
          batch.window_slots, batch.key_begin,       batch.requests.start_pos,
          batch.key_end,      batch.window_pages,    batch.c4_slots,
          batch.c4_pages,     batch.c4_state_pages,  batch.c128_slots,
          batch.c128_pages,   batch.c128_state_pages};
}

TEST(BatchBuilder, KeepsEveryElementOfWideTablesInItsPlace) {
  const auto device = *cpu::NewCpuDevice({.num_threads = 1, .isa = {}});
  const auto stream = device->NewStream();
  BatchBuilder builder = *BatchBuilder::New(*device, {.max_requests = 3},
                                            {.tokens = 3, .requests = 3, .context = 6 * 128},
                                            BatchBuilder::TableWidth::kOfContext, {});
  std::vector<Tensor> first;
  for (const int32_t pages : {2, 5, 1, 3}) {
    SCOPED_TRACE(pages);
    const Batch batch = builder.Build(*stream, {4, 5}, TablesOf(pages),
                                      WindowRanges::Causal(TablesOf(pages).positions, 128));
    const std::vector<Tensor> fields = FieldsOf(batch);
    first = first.empty() ? fields : first;
    for (size_t i = 0; i < fields.size(); ++i) {
      EXPECT_EQ(fields[i].data, first[i].data) << "field " << i;
      EXPECT_EQ(fields[i].shape, first[i].shape) << "field " << i;
    }
    EXPECT_EQ(batch.positions.As<int32_t>()[1], 20 * pages);
    ASSERT_EQ(batch.c4_pages.shape, (Shape{2, 7}));
    for (const Tensor& table : {batch.window_pages, batch.c4_pages, batch.c4_state_pages}) {
      for (int32_t row = 0; row < 2; ++row) {
        const int32_t* page = table.As<int32_t>() + row * 7;
        for (int32_t column = 0; column < 7; ++column) {
          EXPECT_EQ(page[column], column < pages ? 1 + row * pages + column : 0)
              << row << ", " << column;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cachalot
