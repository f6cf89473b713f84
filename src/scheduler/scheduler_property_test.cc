// Random lives of many requests: whatever is admitted, retracted, cancelled, forked or evicted, no
// step reads a row that is not its own text's, every answer is the one that the request would have
// had alone, and every page comes home.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "cache/paged_state.h"
#include "scheduler/scheduler.h"
#include "scheduler/symbolic_cache.h"
#include "scheduler/trace.h"

namespace cachalot {
namespace {

bool Stops(int32_t token) { return token % 97 == 0; }

// The tokens that a request alone would have in the end.
std::vector<int32_t> Alone(const RequestSpec& spec, int64_t most) {
  std::vector<int32_t> tokens = spec.prompt;
  const auto limit = static_cast<size_t>(
      std::min(most, static_cast<int64_t>(spec.prompt.size()) + spec.max_new_tokens));
  while (tokens.size() < limit) {
    tokens.push_back(NextToken(tokens));
    if (Stops(tokens.back())) {
      break;
    }
  }
  return tokens;
}

struct World {
  const char* name;
  uint32_t seed;
  SchedulerOptions options;
  bool plan_ahead = false;
  bool evicts = false;  // pages leave the index at odd times too; a trace does not tell of these
};

std::string NameOf(const testing::TestParamInfo<World>& world) {
  return fmt::format("{}{}{}", world.param.name, world.param.plan_ahead ? "Ahead" : "",
                     world.param.seed);
}

class Simulation {
 public:
  explicit Simulation(const World& world)
      : world_(world),
        random_(world.seed),
        scheduler_(world.options),
        rows_(world.options.geometry) {
    trace_ = TraceHeader(world.options) + "\n";
    scheduler_.Observe([this](const SchedulerEvent& event) { trace_ += TraceLine(event) + "\n"; });
  }

  void RunFor(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      const uint32_t kind = random_() % 100;
      if (kind < 25) {
        Submit(NewPrompt());
      } else if (kind < 31) {
        Fork();
      } else if (kind < 35) {
        Cancel();
      } else if (kind < 37 && !in_flight_) {
        scheduler_.Retract(RequestId(static_cast<int64_t>(random_() % 1000) % (next_id_ + 1)));
      } else if (kind < 41 && world_.evicts) {
        Evict();
      } else if (kind < 60 && !fetches_.empty()) {
        FinishFetch();
      } else {
        Step();
      }
    }
  }

  void Drain() {
    for (int steps = 0; !scheduler_.idle() || in_flight_; ++steps) {
      ASSERT_LT(steps, 200000) << "somebody never ends";
      if (!fetches_.empty() && random_() % 4 == 0) {
        FinishFetch();
      }
      Step();
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
    EXPECT_EQ(scheduler_.LeakReport(), "");
    EXPECT_EQ(ended_, next_id_);
    while (!fetches_.empty()) {
      FinishFetch();
    }
    scheduler_.index().CheckConsistency();
  }

  const std::string& trace() const { return trace_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  struct Naive {
    RequestSpec spec;
    std::vector<int32_t> tokens;
  };

  std::vector<int32_t> NewPrompt() {
    // One of few beginnings, cut anywhere, then something of its own.
    std::mt19937 words(random_() % 3);
    std::vector<int32_t> prompt(random_() % 4 == 0 ? 0 : random_() % 900);
    for (int32_t& token : prompt) {
      token = static_cast<int32_t>(words() % kVocabulary);
    }
    for (uint32_t own = random_() % 300 + (prompt.empty() ? 1 : 0); own > 0; --own) {
      prompt.push_back(static_cast<int32_t>(random_() % kVocabulary));
    }
    return prompt;
  }

  void Submit(std::vector<int32_t> prompt) {
    RequestSpec spec;
    spec.id = RequestId(next_id_);
    spec.prompt = std::move(prompt);
    spec.max_new_tokens = random_() % 200 + 1;
    spec.priority = random_() % 8 == 0 ? 1 : 0;
    spec.deadline = random_() % 30 == 0 ? now_ + random_() % 300 : kNever;
    spec.run_whole_prompt = random_() % 20 == 0;
    if (scheduler_.Submit(spec)) {
      naive_[spec.id] = {spec, spec.prompt};
      ++next_id_;
    }
  }

  void Fork() {
    if (naive_.empty()) {
      return;
    }
    auto from = naive_.begin();
    std::advance(from, random_() % naive_.size());
    std::vector<int32_t> prompt = random_() % 2 == 0 ? from->second.tokens : past_;
    prompt.push_back(static_cast<int32_t>(random_() % kVocabulary));
    Submit(std::move(prompt));
  }

  void Cancel() {
    if (!naive_.empty()) {
      auto victim = naive_.begin();
      std::advance(victim, random_() % naive_.size());
      scheduler_.Cancel(victim->first);
    }
  }

  void Evict() {
    auto& index = const_cast<PrefixIndex&>(scheduler_.index());
    const auto pool = static_cast<CachePool>(random_() % 3);
    std::vector<CacheMove> moves;
    index.Evict(pool, scheduler_.cache().available_pages(pool) + random_() % 3 + 1, moves);
    for (const CacheMove& move : moves) {
      rows_.Move(move);
    }
  }

  // Any of those under way. The disk has lost a part now and then.
  void FinishFetch() {
    const auto next = fetches_.begin() + random_() % fetches_.size();
    const DiskFetch fetch = *next;
    fetches_.erase(next);
    if (random_() % 8 == 0) {
      rows_.LoseFromDisk(fetch.key, fetch.part);
    }
    scheduler_.Fetched(fetch.id, rows_.Fetch(fetch));
  }

  void Step() {
    std::optional<StepPlan> plan;
    if (world_.plan_ahead || !in_flight_) {
      plan = scheduler_.Plan(++now_);
      for (const EndedRequest& end : plan->ended) {
        OnEnd(end);
      }
    }
    if (in_flight_) {
      FinishStep();
    }
    if (plan && !testing::Test::HasFatalFailure()) {
      Execute(*plan);
    }
    if (!world_.plan_ahead && in_flight_) {
      FinishStep();
    }
    if (now_ % 16 == 0) {
      scheduler_.index().CheckConsistency();
    }
  }

  // Moves always; entries of requests that are still there.
  void Execute(const StepPlan& plan) {
    for (const CacheMove& move : plan.moves) {
      rows_.Move(move);
    }
    fetches_.insert(fetches_.end(), plan.fetches.begin(), plan.fetches.end());
    sampled_.clear();
    for (const PlannedRequest& entry : plan.requests) {
      const auto found = naive_.find(entry.id);
      if (found == naive_.end()) {
        continue;
      }
      const std::vector<int32_t>& tokens = found->second.tokens;
      const auto start = static_cast<size_t>(entry.start.value);
      ASSERT_LE(start + entry.ids.size(), tokens.size());
      ASSERT_EQ(entry.samples, start + entry.ids.size() == tokens.size());
      for (size_t i = 0; i < entry.ids.size(); ++i) {
        ASSERT_TRUE(entry.ids[i] == tokens[start + i] || entry.ids[i] == kUnknownToken);
      }
      const auto seen = std::span(tokens).first(start + entry.ids.size());
      ASSERT_EQ(rows_.Run(scheduler_.cache(), entry, seen), "") << "step " << plan.number;
      if (entry.samples) {
        const int32_t token = NextToken(tokens);
        sampled_.push_back({entry.id, token, Stops(token)});
      }
    }
    in_flight_ = !plan.requests.empty();
  }

  void FinishStep() {
    in_flight_ = false;
    for (const SampledToken& sample : sampled_) {
      if (const auto found = naive_.find(sample.id); found != naive_.end()) {
        found->second.tokens.push_back(sample.token);
      }
    }
    for (const EndedRequest& end : scheduler_.Complete(sampled_)) {
      OnEnd(end);
    }
  }

  void OnEnd(const EndedRequest& end) {
    ++ended_;
    const auto found = naive_.find(end.id);
    ASSERT_NE(found, naive_.end());
    const Naive& request = found->second;
    const auto alone = Alone(
        request.spec,
        std::min(world_.options.max_context, world_.options.geometry.full_pages * kPageTokens));
    if (end.reason == EndReason::kStopped || end.reason == EndReason::kLength) {
      ASSERT_EQ(request.tokens, alone);
      ASSERT_EQ(end.reason == EndReason::kStopped, Stops(alone.back()));
    } else {
      ASSERT_LE(request.tokens.size(), alone.size());
      ASSERT_TRUE(std::equal(request.tokens.begin(), request.tokens.end(), alone.begin()));
    }
    if (request.tokens.size() % kPageTokens == 0) {
      past_ = request.tokens;
    }
    naive_.erase(found);
  }

  const World world_;
  std::mt19937 random_;
  Scheduler scheduler_;
  SymbolicCache rows_;
  std::map<RequestId, Naive> naive_;
  std::vector<int32_t> past_;  // the last text that ended with a page
  std::vector<SampledToken> sampled_;
  std::vector<DiskFetch> fetches_;  // under way
  bool in_flight_ = false;
  int64_t next_id_ = 0;
  int64_t ended_ = 0;
  Ticks now_ = 0;
  std::string trace_;
};

// c128 pages of 4 entries: requests of up to 12 pages have several.
SchedulerOptions Options(int64_t full_pages, int64_t swa_pages, int64_t max_requests) {
  SchedulerOptions options;
  options.geometry = {.max_requests = max_requests,
                      .full_pages = full_pages,
                      .swa_pages = swa_pages,
                      .c128_pages = full_pages / 4 + max_requests,
                      .c128_page_entries = 4,
                      .has_c4 = true,
                      .window = 128};
  options.chunk_tokens = 256;
  options.max_context = 1500;
  options.max_waiting = 24;
  return options;
}

std::vector<World> Worlds() {
  SchedulerOptions roomy = Options(200, 60, 4);
  roomy.geometry.c128_page_entries = 16;
  SchedulerOptions tight = Options(22, 20, 5);
  SchedulerOptions host = Options(24, 19, 4);
  host.prefix.host_slots = {30, 6};
  host.geometry.c128_page_entries = 3;
  host.geometry.c128_pages = 12;
  SchedulerOptions disk = Options(24, 19, 4);
  disk.prefix.host_slots = {12, 6};
  disk.prefix.disk_slots = {60, 20};
  SchedulerOptions off = Options(30, 22, 3);
  off.prefix.enabled = false;
  SchedulerOptions paged = off;
  paged.geometry.c4_state_pages = PagedStatePages(4, 3, paged.chunk_tokens);
  paged.geometry.c128_state_pages = PagedStatePages(128, 3, paged.chunk_tokens);
  SchedulerOptions one = Options(13, 8, 1);
  SchedulerOptions wide = Options(40, 40, 4);
  wide.geometry.window = 200;
  wide.prefix.host_slots = {8, 8};
  wide.chunk_tokens = 128;
  SchedulerOptions plain = Options(40, 22, 4);
  plain.geometry.has_c4 = false;
  plain.geometry.c128_pages = 0;
  std::vector<World> worlds;
  uint32_t seed = 1;
  for (const bool plan_ahead : {false, true}) {
    const auto add = [&](const char* name, const SchedulerOptions& options, bool evicts = false) {
      worlds.push_back({name, seed++, options, plan_ahead, evicts});
    };
    add("Roomy", roomy);
    add("Tight", tight);
    add("Tight", tight);
    add("Host", host);
    add("HostEvicts", host, true);
    add("Disk", disk);
    add("DiskEvicts", disk, true);
    add("Off", off);
    add("Paged", paged);
    add("One", one);
    add("Wide", wide);
    add("WideEvicts", wide, true);
    add("Plain", plain);
  }
  return worlds;
}

class SchedulerProperty : public testing::TestWithParam<World> {};

TEST_P(SchedulerProperty, NeverMixesTextsAndBringsEveryPageHome) {
  Simulation simulation(GetParam());
  simulation.RunFor(10000);
  if (HasFatalFailure()) {
    return;
  }
  simulation.Drain();
  if (!GetParam().evicts) {
    const auto replayed = ReplayTrace(simulation.trace(), "trace");
    EXPECT_TRUE(replayed) << replayed.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, SchedulerProperty, testing::ValuesIn(Worlds()), NameOf);

}  // namespace
}  // namespace cachalot
