// A scheduler with an engine of symbols, stepped by hand, for this room's tests: every row that a
// step reads is checked, and the answer to a text is always the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"
#include "scheduler/symbolic_cache.h"

namespace cachalot {

using Tokens = std::vector<int32_t>;

inline Tokens Text(int32_t seed, int64_t num_tokens) {
  Tokens tokens;
  for (int64_t i = 0; i < num_tokens; ++i) {
    tokens.push_back(seed * 100000 + static_cast<int32_t>(i));
  }
  return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Pools in which nothing runs short.
inline SchedulerOptions RoomyOptions(int64_t max_requests = 4) {
  SchedulerOptions options;
  options.geometry = {.max_requests = max_requests,
                      .full_pages = 400,
                      .swa_pages = 400,
                      .c128_pages = 120,
                      .c128_page_entries = 16,
                      .has_c4 = true,
                      .window = 128};
  options.chunk_tokens = 256;
  options.max_context = 20000;
  return options;
}

// Only `full_pages` pages, and windows for no more than it takes.
inline SchedulerOptions TightOptions(int64_t full_pages, int64_t max_requests) {
  SchedulerOptions options = RoomyOptions(max_requests);
  options.geometry.full_pages = full_pages;
  options.geometry.swa_pages = std::min(full_pages, 3 * max_requests + 3);
  options.geometry.c128_pages = full_pages / 4 + max_requests;
  return options;
}

class SchedulerScene {
 public:
  explicit SchedulerScene(const SchedulerOptions& options)
      : scheduler(options), rows_(options.geometry) {}

  // `spec` says all but the id and the prompt.
  RequestId Submit(Tokens prompt, RequestSpec spec = {.max_new_tokens = 4}) {
    spec.id = RequestId(++last_id_);
    spec.prompt = std::move(prompt);
    tokens[spec.id] = spec.prompt;
    const Status status = scheduler.Submit(spec);
    EXPECT_TRUE(status) << status.error().message;
    return spec.id;
  }

  // One plan, not yet run. At most one earlier one may be without its results.
  const StepPlan& Plan() {
    plan_ = scheduler.Plan(now);
    Note(plan_.ended);
    return plan_;
  }

  // Runs the last plan: the entries of requests that are still there.
  void Execute() {
    for (const CacheMove& move : plan_.moves) {
      rows_.Move(move);
    }
    std::vector<SampledToken> sampled;
    for (const PlannedRequest& entry : plan_.requests) {
      if (ended.contains(entry.id)) {
        continue;
      }
      const Tokens& known = tokens[entry.id];
      const auto end = static_cast<size_t>(entry.start.value) + entry.ids.size();
      ASSERT_LE(end, known.size());
      ASSERT_EQ(entry.samples, end == known.size());
      ASSERT_EQ(rows_.Run(scheduler.cache(), entry, std::span(known).first(end)), "");
      if (entry.samples) {
        sampled.push_back({entry.id, NextToken(known), stop_next.contains(entry.id)});
      }
    }
    if (!plan_.requests.empty()) {
      results_.push_back(sampled);
    }
  }

  void Complete() {
    const std::vector<SampledToken> sampled = results_.front();
    results_.erase(results_.begin());
    for (const SampledToken& sample : sampled) {
      if (!ended.contains(sample.id)) {
        tokens[sample.id].push_back(sample.token);
      }
    }
    Note(scheduler.Complete(sampled));
  }

  void CompleteAll() {
    while (!results_.empty()) {
      Complete();
    }
  }

  const StepPlan& Step() {
    Plan();
    Execute();
    CompleteAll();
    scheduler.index().CheckConsistency();
    return plan_;
  }

  // Steps until nobody is left; returns their number.
  int Drain() {
    int steps = 0;
    for (; !scheduler.idle() && !testing::Test::HasFatalFailure(); ++steps) {
      EXPECT_LT(steps, 20000) << "somebody never ends";
      if (steps >= 20000) {
        break;
      }
      Step();
    }
    EXPECT_EQ(scheduler.LeakReport(), "");
    return steps;
  }

  // Steps until the request has ended.
  void StepUntilEnd(RequestId id) {
    for (int steps = 0; !ended.contains(id) && steps < 20000; ++steps) {
      Step();
    }
    ASSERT_TRUE(ended.contains(id));
  }

  void Note(const std::vector<EndedRequest>& ends) {
    for (const EndedRequest& end : ends) {
      EXPECT_TRUE(ended.emplace(end.id, end.reason).second) << "ended twice";
      order_of_ends.push_back(end.id);
    }
  }

  // The entry of a request in the last plan.
  std::optional<PlannedRequest> EntryOf(RequestId id) const {
    const auto found = std::ranges::find(plan_.requests, id, &PlannedRequest::id);
    return found == plan_.requests.end() ? std::nullopt : std::optional(*found);
  }
  int64_t TokensOf(RequestId id) const {
    const auto entry = EntryOf(id);
    return entry ? static_cast<int64_t>(entry->ids.size()) : 0;
  }

  // For drills: who holds pages besides requests and index.
  CacheAllocator& cache() { return const_cast<CacheAllocator&>(scheduler.cache()); }

  Scheduler scheduler;
  Ticks now = 0;
  std::map<RequestId, Tokens> tokens;
  std::map<RequestId, EndReason> ended;
  std::vector<RequestId> order_of_ends;
  std::set<RequestId> stop_next;

 private:
  SymbolicCache rows_;
  StepPlan plan_;
  std::vector<std::vector<SampledToken>> results_;  // of plans without Complete
  int64_t last_id_ = 0;
};

}  // namespace cachalot
