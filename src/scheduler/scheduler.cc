#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/paged_state.h"
#include "scheduler/chunk.h"
#include "scheduler/trace.h"

namespace cachalot {

const char* NameOf(EndReason reason) {
  switch (reason) {
    case EndReason::kStopped:
      return "stopped";
    case EndReason::kLength:
      return "length";
    case EndReason::kCancelled:
      return "cancelled";
    case EndReason::kDeadline:
      return "deadline";
    case EndReason::kFailed:
      return "failed";
  }
  return "?";
}

struct Scheduler::Request {
  RequestId id;
  std::vector<int32_t> tokens;  // the prompt, then what was sampled
  int64_t prompt_tokens = 0;
  int64_t most_tokens = 0;  // it is at its length with these
  Ticks deadline = kNever;
  bool run_whole_prompt = false;
  Rank rank;

  bool cancelled = false;
  bool fetched = false;             // it has had its parts read from disk
  std::optional<RequestSlot> slot;  // while it runs
  int64_t planned = 0;              // tokens that plans have run, or will have
  int64_t kept = 0;                 // of these, in the prefix index
  int64_t pending = 0;              // samples of plans without their Complete
  int64_t last_plan = 0;            // its last entry: the plan, and how many tokens
  int64_t last_tokens = 0;
  std::optional<int64_t> cached_tokens;  // once it was admitted

  int64_t known() const { return static_cast<int64_t>(tokens.size()); }
  // Tokens that can be run, a pending one included.
  int64_t remaining() const { return known() + pending - planned; }
};

namespace {

// cache.I36, I38.
Status CheckPagedState(const SchedulerOptions& options) {
  const CacheGeometry& geometry = options.geometry;
  if (geometry.has_paged_state() && options.prefix.enabled) {
    return MakeError(StatusCode::kInvalidArgument,
                     "a prefix index together with paged state, which no prefix has");
  }
  const struct {
    int64_t ratio;
    int64_t pages;
  } pools[] = {{4, geometry.c4_state_pages}, {128, geometry.c128_state_pages}};
  for (const auto& [ratio, pages] : pools) {
    const int64_t least = PagedStatePages(ratio, geometry.max_requests, options.chunk_tokens);
    if (pages > 0 && pages < least) {
      return MakeError(StatusCode::kInvalidArgument, "{} pages of c{} state, expected at least {}",
                       pages, ratio, least);
    }
  }
  return {};
}

}  // namespace

Status CheckSchedulerOptions(const SchedulerOptions& options) {
  const CacheGeometry& geometry = options.geometry;
  if (options.chunk_tokens <= 0 || options.chunk_tokens % kPageTokens != 0) {
    return MakeError(StatusCode::kInvalidArgument,
                     "{} tokens of prompts in a step, expected a multiple of {}",
                     options.chunk_tokens, kPageTokens);
  }
  // What all requests hold between two plans, and what a step adds: cache.I22.
  const int64_t window_pages = CeilDiv(std::max(geometry.window, kPageTokens), kPageTokens);
  const int64_t windows = geometry.max_requests * (window_pages + 2) +
                          CeilDiv(options.chunk_tokens + geometry.max_requests, kPageTokens);
  if (geometry.swa_pages < std::min(windows, geometry.full_pages)) {
    return MakeError(StatusCode::kInvalidArgument, "{} window pages, expected at least {}",
                     geometry.swa_pages, std::min(windows, geometry.full_pages));
  }
  const int64_t c128 = geometry.full_pages / geometry.c128_page_entries + geometry.max_requests;
  if (geometry.has_c128() && geometry.c128_pages < c128) {
    return MakeError(StatusCode::kInvalidArgument, "{} c128 pages, expected at least {}",
                     geometry.c128_pages, c128);
  }
  return CheckPagedState(options);
}

int64_t MostTokens(const SchedulerOptions& options) {
  return std::min(options.max_context, options.geometry.full_pages * kPageTokens);
}

Status CheckRequest(const SchedulerOptions& options, const RequestSpec& spec) {
  const auto prompt_tokens = static_cast<int64_t>(spec.prompt.size());
  const int64_t most = MostTokens(options);
  if (prompt_tokens == 0) {
    return MakeError(StatusCode::kInvalidArgument, "the prompt has no tokens");
  }
  if (spec.max_new_tokens < 1) {
    return MakeError(StatusCode::kInvalidArgument, "{} new tokens asked for, expected at least 1",
                     spec.max_new_tokens);
  }
  if (prompt_tokens >= most) {
    return MakeError(StatusCode::kInvalidArgument,
                     "the prompt has {} tokens, but the {} holds {}, the answer included",
                     prompt_tokens, most == options.max_context ? "context" : "cache", most);
  }
  return {};
}

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), cache_(options.geometry), index_(cache_, options.prefix) {
  CACHALOT_CHECK(CheckSchedulerOptions(options).has_value());
}

Scheduler::~Scheduler() = default;

void Scheduler::Observe(std::function<void(const SchedulerEvent&)> observer) {
  observer_ = std::move(observer);
}

void Scheduler::Notify(const SchedulerEvent& event) const {
  if (observer_) {
    observer_(event);
  }
}

Status Scheduler::Submit(RequestSpec spec) {
  CACHALOT_RETURN_IF_ERROR(CheckRequest(options_, spec));
  const auto prompt_tokens = static_cast<int64_t>(spec.prompt.size());
  const int64_t most = MostTokens(options_);
  CACHALOT_CHECK(!requests_.contains(spec.id), "request {} is there already", spec.id);
  if (static_cast<int64_t>(waiting_.size()) >= options_.max_waiting) {
    return MakeError(StatusCode::kResourceExhausted, "the queue is full: {} requests wait",
                     waiting_.size());
  }
  Notify({.kind = SchedulerEvent::Kind::kSubmit, .spec = &spec});
  auto request = std::make_unique<Request>();
  request->id = spec.id;
  request->tokens = std::move(spec.prompt);
  request->prompt_tokens = prompt_tokens;
  request->most_tokens = prompt_tokens + std::min(spec.max_new_tokens, most - prompt_tokens);
  request->deadline = spec.deadline;
  request->run_whole_prompt = spec.run_whole_prompt;
  request->rank = {-int64_t{spec.priority}, next_arrival_++};
  waiting_.emplace(request->rank, request.get());
  requests_.emplace(spec.id, std::move(request));
  return {};
}

void Scheduler::Cancel(RequestId id) {
  Notify({.kind = SchedulerEvent::Kind::kCancel, .id = id});
  if (const auto found = requests_.find(id); found != requests_.end()) {
    found->second->cancelled = true;
  }
}

std::vector<Scheduler::Request*> Scheduler::InOrder(const Queue& queue) const {
  std::vector<Request*> requests;
  for (const auto& [rank, request] : queue) {
    requests.push_back(request);
  }
  return requests;
}

StepPlan Scheduler::Plan(Ticks now) {
  CACHALOT_CHECK_LE(planned_ - completed_, 1);
  StepPlan plan;
  plan.number = ++planned_;
  index_.TakeMoves(plan.moves);
  EndOverdue(now, plan);
  KeepPages();
  index_.TakeMoves(plan.moves);
  PlanSingleTokens(plan);
  AdmitWaiting(plan);
  PlanPrompts(plan);
  totals_.peak_running = std::max(totals_.peak_running, static_cast<int64_t>(running_.size()));
  if (plan.requests.empty()) {
    --planned_;  // nothing to complete
  }
  Notify({.kind = SchedulerEvent::Kind::kPlan, .now = now, .plan = &plan});
  return plan;
}

void Scheduler::EndOverdue(Ticks now, StepPlan& plan) {
  for (const Queue* queue : {&running_, &waiting_}) {
    for (Request* request : InOrder(*queue)) {
      if (request->cancelled) {
        End(*request, EndReason::kCancelled, true, plan.ended);
      } else if (request->deadline <= now) {
        End(*request, EndReason::kDeadline, true, plan.ended);
      }
    }
  }
}

// What the plans so far have run can be found by others, and windows that have gone by are free.
void Scheduler::KeepPages() {
  for (const auto& [rank, request] : running_) {
    const bool at_end_of_prompt =
        request->planned >= request->prompt_tokens && request->kept < request->prompt_tokens;
    InsertPages(*request, at_end_of_prompt);
    cache_.EvictPast(*request->slot, request->planned);
  }
}

void Scheduler::InsertPages(Request& request, bool landmark) {
  const int64_t whole = std::min(request.planned, request.known()) / kPageTokens * kPageTokens;
  if (whole > request.kept || landmark) {
    index_.Insert(*request.slot, std::span(request.tokens).first(static_cast<size_t>(whole)),
                  landmark);
  }
  request.kept = landmark ? request.planned : std::max(request.kept, whole);
}

void Scheduler::PlanSingleTokens(StepPlan& plan) {
  for (Request* request : InOrder(running_)) {
    const bool wanted = request->slot && request->remaining() == 1 &&
                        request->known() + request->pending < request->most_tokens;
    if (wanted) {
      AddEntry(plan, *request, 1);
    }
  }
}

void Scheduler::PlanPrompts(StepPlan& plan) {
  std::vector<Request*> prompts;
  std::vector<int64_t> remaining;
  for (Request* request : InOrder(running_)) {
    if (request->last_plan != plan.number && request->pending == 0) {
      prompts.push_back(request);
      remaining.push_back(request->remaining());
    }
  }
  const std::vector<int64_t> shares = ShareChunk(remaining, options_.chunk_tokens);
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (shares[i] > 0 && prompts[i]->slot) {
      AddEntry(plan, *prompts[i], shares[i]);
    }
  }
}

bool Scheduler::AddEntry(StepPlan& plan, Request& request, int64_t num_tokens) {
  if (!MakeRoom(plan, request, num_tokens)) {
    return false;
  }
  PlannedRequest entry;
  entry.id = request.id;
  entry.slot = *request.slot;
  entry.start = TokenPos(static_cast<int32_t>(request.planned));
  entry.samples = num_tokens == request.remaining();
  for (int64_t i = request.planned; i < request.planned + num_tokens; ++i) {
    entry.ids.push_back(i < request.known() ? request.tokens[static_cast<size_t>(i)]
                                            : kUnknownToken);
  }
  request.planned += num_tokens;
  request.pending += entry.samples ? 1 : 0;
  request.last_plan = plan.number;
  request.last_tokens = num_tokens;
  plan.requests.push_back(std::move(entry));
  return true;
}

// S10. False where the request had to give way itself.
bool Scheduler::MakeRoom(StepPlan& plan, Request& request, int64_t num_tokens) {
  const Growth growth{.slot = *request.slot, .num_tokens = num_tokens, .swa_begin = TokenPos(0)};
  for (;;) {
    const auto room = cache_.Extend({&growth, 1});
    if (room) {
      return true;
    }
    if (index_.Evict(room.error().pool, room.error().need, plan.moves)) {
      continue;
    }
    Request& last = *running_.rbegin()->second;
    CACHALOT_CHECK(running_.size() > 1, "pool {} cannot hold one request: {} pages wanted of {}",
                   NameOf(room.error().pool), room.error().need, room.error().have);
    RetractFrom(&plan, last);
    if (&last == &request) {
      return false;
    }
  }
}

void Scheduler::AdmitWaiting(StepPlan& plan) {
  // Each look at a waiting request costs a walk in the index.
  int64_t looks = 2 * options_.geometry.max_requests + 16;
  for (Request* request : InOrder(waiting_)) {
    if (looks-- == 0) {
      return;
    }
    if (request->pending > 0 || WaitsForPrefix(*request) || WaitsForDisk(plan, *request)) {
      continue;
    }
    while (!Admit(plan, *request)) {
      if (!RetractLowerPriority(plan, *request)) {
        return;
      }
    }
  }
}

bool Scheduler::Admit(StepPlan& plan, Request& request) {
  const auto slot = cache_.TakeRequest();
  if (!slot) {
    return false;
  }
  plan.moves.push_back(ClearRequest{*slot});
  int64_t cached = 0;
  if (!request.run_whole_prompt) {
    cached = index_.Adopt(*slot, request.tokens, plan.moves) * kPageTokens;
  }
  request.slot = slot;
  waiting_.erase(request.rank);
  running_.emplace(request.rank, &request);
  if (!ReservePages(plan)) {
    cache_.Free(*slot);
    request.slot.reset();
    running_.erase(request.rank);
    waiting_.emplace(request.rank, &request);
    return false;
  }
  request.planned = cached;
  request.kept = 0;
  if (!request.cached_tokens) {
    request.cached_tokens = std::min(cached, request.prompt_tokens);
    totals_.prompt_tokens += request.prompt_tokens;
    totals_.cached_tokens += *request.cached_tokens;
  }
  return true;
}

// S9: whether the pools have, or can get back from the index, the pages that the running requests
// need for all they know and one page more.
bool Scheduler::ReservePages(StepPlan& plan) {
  const int64_t entries = options_.geometry.c128_page_entries;
  int64_t full = 0;
  int64_t c128 = 0;
  for (const auto& [rank, request] : running_) {
    const PageSet& held = cache_.pages(*request->slot);
    const int64_t wanted = std::min(request->known() + kPageTokens, request->most_tokens);
    full +=
        std::max<int64_t>(0, CeilDiv(wanted, kPageTokens) - static_cast<int64_t>(held.full.size()));
    c128 += std::max<int64_t>(
        0, CeilDiv(wanted / 128, entries) - static_cast<int64_t>(held.c128.size()));
  }
  // Not for nothing: eviction would not bring that much.
  if (full > cache_.available_pages(CachePool::kFull) + index_.device_pages()) {
    return false;
  }
  return index_.Evict(CachePool::kFull, full, plan.moves) &&
         (!options_.geometry.has_c128() || index_.Evict(CachePool::kC128, c128, plan.moves));
}

// S9: somebody who is not less urgent is about to run what this request begins with.
bool Scheduler::WaitsForPrefix(const Request& request) const {
  if (!options_.prefix.enabled || request.run_whole_prompt) {
    return false;
  }
  std::optional<int64_t> matched;
  for (const auto& [rank, other] : running_) {
    if (other->planned >= other->known() || rank.minus_priority > request.rank.minus_priority) {
      continue;
    }
    const auto [end, unused] = std::ranges::mismatch(request.tokens, other->tokens);
    const int64_t common =
        std::min<int64_t>(end - request.tokens.begin(), request.known() - 1) / kPageTokens;
    if (common == 0 || other->planned >= common * kPageTokens) {
      continue;
    }
    if (!matched) {
      matched = index_.Match(request.tokens);
    }
    if (common > *matched) {
      return true;
    }
  }
  return false;
}

// S15: once only, so that a host tier too small for two cannot keep both waiting.
bool Scheduler::WaitsForDisk(StepPlan& plan, Request& request) {
  if (request.run_whole_prompt) {
    return false;
  }
  if (request.fetched) {
    return index_.IsFetching(request.tokens);
  }
  const size_t before = plan.fetches.size();
  const bool waits = index_.Fetch(request.tokens, plan.fetches);
  request.fetched = plan.fetches.size() > before;
  return waits;
}

void Scheduler::Fetched(int64_t fetch, bool ok) {
  Notify({.kind = SchedulerEvent::Kind::kFetched, .fetch = fetch, .ok = ok});
  index_.Fetched(fetch, ok);
}

bool Scheduler::RetractLowerPriority(StepPlan& plan, const Request& request) {
  if (running_.empty()) {
    return false;
  }
  Request& last = *running_.rbegin()->second;
  if (last.rank.minus_priority <= request.rank.minus_priority) {
    return false;
  }
  RetractFrom(&plan, last);
  return true;
}

void Scheduler::Retract(RequestId id) {
  Notify({.kind = SchedulerEvent::Kind::kRetract, .id = id});
  const auto found = requests_.find(id);
  if (found != requests_.end() && found->second->slot) {
    RetractFrom(nullptr, *found->second);
  }
}

// An entry in `plan`, which nobody has run yet, is taken back.
void Scheduler::RetractFrom(StepPlan* plan, Request& request) {
  if (plan != nullptr && request.last_plan == plan->number) {
    const auto entry = std::ranges::find(plan->requests, request.id, &PlannedRequest::id);
    request.pending -= entry->samples ? 1 : 0;
    plan->requests.erase(entry);
  }
  cache_.Free(*request.slot);
  request.slot.reset();
  request.planned = 0;
  request.last_plan = 0;
  running_.erase(request.rank);
  waiting_.emplace(request.rank, &request);
  ++totals_.retractions;
}

std::vector<EndedRequest> Scheduler::Complete(std::span<const SampledToken> sampled) {
  CACHALOT_CHECK_GT(planned_, completed_);
  ++completed_;
  Notify({.kind = SchedulerEvent::Kind::kComplete, .sampled = sampled});
  std::vector<EndedRequest> ended;
  for (const SampledToken& sample : sampled) {
    const auto found = requests_.find(sample.id);
    if (found == requests_.end()) {
      continue;  // ended by the plan after
    }
    Request& request = *found->second;
    CACHALOT_CHECK_GT(request.pending, 0);
    --request.pending;
    request.tokens.push_back(sample.token);
    const bool at_length = request.known() == request.most_tokens;
    if (sample.stop || at_length) {
      if (request.slot && request.last_plan > completed_) {
        request.planned -= request.last_tokens;  // S8: that entry will not run
      }
      End(request, sample.stop ? EndReason::kStopped : EndReason::kLength, true, ended);
    }
  }
  return ended;
}

std::vector<EndedRequest> Scheduler::Fail() {
  Notify({.kind = SchedulerEvent::Kind::kFail});
  std::vector<EndedRequest> ended;
  for (Request* request : InOrder(running_)) {
    End(*request, EndReason::kFailed, false, ended);
  }
  for (Request* request : InOrder(waiting_)) {
    if (request->pending > 0) {  // retracted, but its last token is lost
      End(*request, EndReason::kFailed, false, ended);
    }
  }
  index_.Clear();
  completed_ = planned_;
  return ended;
}

void Scheduler::End(Request& request, EndReason reason, bool keep_pages,
                    std::vector<EndedRequest>& ended) {
  if (request.slot) {
    if (keep_pages) {
      InsertPages(request, true);
    }
    cache_.Free(*request.slot);
  }
  running_.erase(request.rank);
  waiting_.erase(request.rank);
  ended.push_back({request.id, reason});
  requests_.erase(request.id);
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = totals_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = static_cast<int64_t>(waiting_.size());
  return stats;
}

std::vector<RequestId> Scheduler::running() const {
  std::vector<RequestId> ids;
  for (const auto& [rank, request] : running_) {
    ids.push_back(request->id);
  }
  return ids;
}

int64_t Scheduler::cached_tokens(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? 0 : found->second->cached_tokens.value_or(0);
}

std::string Scheduler::LeakReport() {
  index_.Clear();
  return cache_.LeakReport();
}

}  // namespace cachalot
