// Scheduler: which requests run in a step, and with which pages. It owns the cache's metadata, the
// allocator and the prefix index, and nothing else: no device, no model, no clock, no threads. One
// thread uses it. docs/contracts/scheduler.md is what it promises.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "cache/cache_allocator.h"
#include "cache/prefix_index.h"
#include "scheduler/request.h"
#include "scheduler/step_plan.h"

namespace cachalot {

struct SchedulerOptions {
  CacheGeometry geometry;  // its max_requests may run at once
  PrefixOptions prefix;
  int64_t chunk_tokens = 512;  // tokens of prompts in a step: whole pages
  int64_t max_context = 0;     // tokens of a request, its answer included
  int64_t max_waiting = 1 << 20;
};

// kInvalidArgument for chunks that are no whole pages, and for pools in which a request alone could
// run out of pages other than full ones.
Status CheckSchedulerOptions(const SchedulerOptions& options);
// kInvalidArgument for a request that can never run, whatever else does.
Status CheckRequest(const SchedulerOptions& options, const RequestSpec& spec);
// Tokens that a request can have at most, its answer included.
int64_t MostTokens(const SchedulerOptions& options);

struct SchedulerStats {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t peak_running = 0;   // the most that were at once
  int64_t prompt_tokens = 0;  // of all requests that were admitted
  int64_t cached_tokens = 0;  // of these, found in the prefix index
  int64_t retractions = 0;
};

struct SchedulerEvent;

class Scheduler {
 public:
  // The options have been checked.
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // As CheckRequest; kResourceExhausted: the queue is full.
  Status Submit(RequestSpec spec);
  // Ends with the next plan. Unknown ids are passed over: it may have ended just now.
  void Cancel(RequestId id);
  // At most one earlier plan may be without its Complete.
  StepPlan Plan(Ticks now);
  // What the oldest plan without it has sampled: one token for each entry that samples. Returns the
  // requests that are over with it.
  std::vector<EndedRequest> Complete(std::span<const SampledToken> sampled);
  // A step went wrong: nothing that the device holds can be trusted. Ends all running requests,
  // forgets plans without Complete and the whole index.
  std::vector<EndedRequest> Fail();
  // A fetch of some plan has ended; not ok: the disk tier had it no more.
  void Fetched(int64_t fetch, bool ok);
  // What the disk tier has from earlier runs; before the first plan.
  void Restore(std::span<const StoredPage> pages) { index_.Restore(pages); }
  // Sends a running request back to wait, as shortage of pages would. Not while a plan is yet to be
  // run. For drills and tests.
  void Retract(RequestId id);

  // Nobody is left, and a plan would have nothing to move.
  bool idle() const { return requests_.empty() && !index_.has_moves(); }
  const SchedulerOptions& options() const { return options_; }
  const CacheAllocator& cache() const { return cache_; }
  const PrefixIndex& index() const { return index_; }
  SchedulerStats stats() const;
  std::vector<RequestId> running() const;  // in order
  // Tokens of a request's prompt that were found in the index when it was first admitted.
  int64_t cached_tokens(RequestId id) const;
  // Empties the index, and says which pools lack pages: none, when idle.
  std::string LeakReport();

  // Every event and every plan from now on, for a trace.
  void Observe(std::function<void(const SchedulerEvent&)> observer);

 private:
  struct Request;
  // S3: higher priority first, then earlier arrival.
  struct Rank {
    int64_t minus_priority = 0;
    int64_t arrival = 0;
    auto operator<=>(const Rank&) const = default;
  };
  using Queue = std::map<Rank, Request*>;

  std::vector<Request*> InOrder(const Queue& queue) const;
  void EndOverdue(Ticks now, StepPlan& plan);
  void KeepPages();
  void PlanSingleTokens(StepPlan& plan);
  void PlanPrompts(StepPlan& plan);
  bool AddEntry(StepPlan& plan, Request& request, int64_t num_tokens);
  bool MakeRoom(StepPlan& plan, Request& request, int64_t num_tokens);
  void AdmitWaiting(StepPlan& plan);
  bool Admit(StepPlan& plan, Request& request);
  bool ReservePages(StepPlan& plan);
  bool WaitsForPrefix(const Request& request) const;
  bool WaitsForDisk(StepPlan& plan, Request& request);
  bool RetractLowerPriority(StepPlan& plan, const Request& request);
  void RetractFrom(StepPlan* plan, Request& request);
  void InsertPages(Request& request, bool landmark);
  void End(Request& request, EndReason reason, bool keep_pages, std::vector<EndedRequest>& ended);
  void Notify(const SchedulerEvent& event) const;

  const SchedulerOptions options_;
  CacheAllocator cache_;
  PrefixIndex index_;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests_;
  Queue running_;
  Queue waiting_;
  int64_t next_arrival_ = 0;
  int64_t planned_ = 0;    // number of the last plan
  int64_t completed_ = 0;  // number of the last plan with its Complete
  SchedulerStats totals_;
  std::function<void(const SchedulerEvent&)> observer_;
};

}  // namespace cachalot
