#include "engine/step_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace cachalot {
namespace {

// Rows of logits in memory at once: a vocabulary is wide.
constexpr size_t kRowsAtOnce = 64;

// Adds the time of a scope to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(int64_t& nanoseconds) : nanoseconds_(nanoseconds) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { nanoseconds_ += std::chrono::nanoseconds(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t& nanoseconds_;
  const Clock::time_point begin_ = Clock::now();
};

bool IsStop(const SamplingParams& params, int32_t token) {
  return std::ranges::find(params.stop_ids, token) != params.stop_ids.end();
}

}  // namespace

StepLoop::StepLoop(std::unique_ptr<Executor> executor, const StepLoopOptions& options)
    : executor_(std::move(executor)),
      options_(options),
      scheduler_(options.scheduler),
      mover_(executor_->pools(), executor_->stream(), options.scheduler.prefix.host_slots,
             options.disk) {
  if (options.disk != nullptr) {
    scheduler_.Restore(options.disk->Load());
  }
}

void StepLoop::Submit(RequestId id, EngineRequest request, Ticks now) {
  RequestSpec spec;
  spec.id = id;
  spec.prompt = request.prompt;
  spec.max_new_tokens = request.max_new_tokens;
  spec.priority = request.priority;
  spec.run_whole_prompt = request.prompt_logprobs;
  if (request.timeout) {
    spec.deadline = now + static_cast<Ticks>(*request.timeout * 1e9);
  }
  Active active;
  active.history = TokenHistory(request.sampling, request.prompt);
  active.usage.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  active.request = std::move(request);
  const auto [place, added] = active_.emplace(id, std::move(active));
  CACHALOT_CHECK(added, "request {} is there already", id);
  if (const Status submitted = scheduler_.Submit(std::move(spec)); !submitted) {
    spdlog::warn("request {}: {}", id, submitted.error().message);
    End({id, EndReason::kFailed});
  }
}

void StepLoop::CancelAll() {
  for (const auto& [id, active] : active_) {
    scheduler_.Cancel(id);
  }
}

void StepLoop::Fetched(int64_t fetch, bool ok) {
  --fetches_;
  scheduler_.Fetched(fetch, ok);
}

StepLoop::Turn StepLoop::Step(Ticks now) {
  if (scheduler_.idle() && !in_flight_) {
    return Turn::kIdle;
  }
  if (options_.before_plan) {
    options_.before_plan(scheduler_);
  }
  StepPlan plan;
  {
    const Stopwatch watch(times_.plan);
    plan = scheduler_.Plan(now);
  }
  for (const EndedRequest& ended : plan.ended) {
    End(ended);
  }
  if ((in_flight_ && !Finish()) || !CarryMoves(plan)) {
    // The plan was made for requests that have failed, and its fetches are not begun.
    for (const DiskFetch& fetch : plan.fetches) {
      scheduler_.Fetched(fetch.id, false);
    }
    return Turn::kRan;
  }
  BeginFetches(plan);
  Issue(plan);
  const bool waits = !in_flight_ && fetches_ > 0;
  if (in_flight_ && !options_.plan_ahead) {
    Finish();
  }
  return waits ? Turn::kWaits : Turn::kRan;
}

void StepLoop::BeginFetches(const StepPlan& plan) {
  for (const DiskFetch& fetch : plan.fetches) {
    ++fetches_;
    options_.disk->Read(
        fetch.key, fetch.part, mover_.SlotMemory(fetch.part, fetch.to),
        [id = fetch.id, &passed_on = options_.on_fetched](bool ok) { passed_on(id, ok); });
  }
}

// False where they went wrong. They are waited for where no step is, and before fetches, for these
// may be into host slots that the moves read or write.
bool StepLoop::CarryMoves(const StepPlan& plan) {
  const Stopwatch watch(times_.commit);
  mover_.Carry(plan.moves);
  if (plan.moves.empty() || (!plan.requests.empty() && plan.fetches.empty())) {
    return true;
  }
  if (const Status status = executor_->stream().Synchronize(); !status) {
    Fail(status);
    return false;
  }
  mover_.WriteToDisk();
  return true;
}

void StepLoop::Issue(const StepPlan& plan) {
  if (plan.requests.empty()) {
    return;
  }
  std::vector<PlannedRequest> entries;
  std::vector<StepRequest> steps;
  std::vector<int32_t> ids;
  StepTables tables;
  {
    const Stopwatch watch(times_.commit);
    for (const PlannedRequest& entry : plan.requests) {
      const auto found = active_.find(entry.id);
      if (found == active_.end()) {
        continue;  // over with the step before: scheduler.S8
      }
      Active& active = found->second;
      active.usage.cached_tokens = scheduler_.cached_tokens(entry.id);
      steps.push_back({entry.slot, entry.start, static_cast<int64_t>(entry.ids.size())});
      ids.insert(ids.end(), entry.ids.begin(), entry.ids.end());
      if (ids.back() == kUnknownToken) {
        ids.back() = active.last_token;
      }
      entries.push_back(entry);
    }
    tables = BuildStepTables(scheduler_.cache(), steps);
  }
  if (!entries.empty()) {
    const Stopwatch watch(times_.execute);
    executor_->Forward(std::move(ids), std::move(tables));
    ++times_.steps;
  }
  in_flight_ = std::move(entries);
}

// False where the step went wrong.
bool StepLoop::Finish() {
  const std::vector<PlannedRequest> entries = *in_flight_;
  std::vector<Sample> samples;
  int32_t row = -1;
  for (const PlannedRequest& entry : entries) {
    row += static_cast<int32_t>(entry.ids.size());
    const auto found = active_.find(entry.id);
    if (entry.samples && found != active_.end()) {
      samples.push_back({.id = entry.id, .active = &found->second, .row = row});
    }
  }
  Status status = SampleTokens(samples);
  if (status) {
    status = PublishPrompts();
  }
  in_flight_.reset();
  if (!status) {
    Fail(status);
    return false;
  }
  mover_.WriteToDisk();
  std::vector<SampledToken> sampled;
  {
    const Stopwatch watch(times_.publish);
    for (const Sample& sample : samples) {
      sampled.push_back({sample.id, sample.token, !Publish(sample)});
    }
  }
  std::vector<EndedRequest> over;
  {
    const Stopwatch watch(times_.plan);
    over = scheduler_.Complete(sampled);
  }
  for (const EndedRequest& ended : over) {
    End(ended);
  }
  return true;
}

void StepLoop::Fail(const Status& status) {
  spdlog::error("a step failed: {}", status.error().message);
  mover_.DropDiskWrites();
  for (const EndedRequest& ended : scheduler_.Fail()) {
    End(ended);
  }
}

Status StepLoop::SampleTokens(std::vector<Sample>& samples) {
  if (samples.empty()) {
    const Stopwatch watch(times_.execute);
    return executor_->stream().Synchronize();
  }
  const auto vocab = static_cast<size_t>(executor_->config().vocab_size);
  for (size_t begin = 0; begin < samples.size(); begin += kRowsAtOnce) {
    const auto some =
        std::span(samples).subspan(begin, std::min(kRowsAtOnce, samples.size() - begin));
    std::vector<int32_t> rows;
    for (const Sample& sample : some) {
      rows.push_back(sample.row);
    }
    {
      const Stopwatch watch(times_.execute);
      CACHALOT_RETURN_IF_ERROR(executor_->Logits(rows, &logits_));
    }
    const Stopwatch watch(times_.sample);
    executor_->stream().ShareRows(
        static_cast<int64_t>(some.size()), [&](int64_t first, int64_t last) {
          thread_local Sampler sampler;  // kept for its memory
          for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
            Sample& sample = some[i];
            const EngineRequest& request = sample.active->request;
            const auto logits = std::span(logits_).subspan(i * vocab, vocab);
            const auto allowed =
                request.constraint ? request.constraint->Allowed() : std::span<const uint64_t>();
            sample.token = sampler.Sample(logits, request.sampling, sample.active->history,
                                          sample.active->usage.completion_tokens, allowed);
            if (request.top_logprobs) {
              sample.logprobs = LogprobsOf(logits, sample.token, *request.top_logprobs);
            }
          }
        });
  }
  return {};
}

// How far prompts have come, and their logprobs where they were asked for.
Status StepLoop::PublishPrompts() {
  int64_t first_row = 0;
  for (const PlannedRequest& entry : *in_flight_) {
    const auto found = active_.find(entry.id);
    if (found != active_.end()) {
      Active& active = found->second;
      const auto end = entry.start.value + static_cast<int64_t>(entry.ids.size());
      if (entry.start.value < active.usage.prompt_tokens) {
        if (active.request.prompt_logprobs) {
          CACHALOT_RETURN_IF_ERROR(PublishPrompt(active, entry, first_row));
        }
      }
      // A request that comes back starts over, and says nothing until it is further than it was.
      if (const auto done = std::min(end, active.usage.prompt_tokens); done > active.prompt_done) {
        active.prompt_done = done;
        active.request.listener->OnPrompt(done, active.usage.prompt_tokens,
                                          active.usage.cached_tokens);
      }
    }
    first_row += static_cast<int64_t>(entry.ids.size());
  }
  return {};
}

Status StepLoop::PublishPrompt(Active& active, const PlannedRequest& entry, int64_t first_row) {
  const std::vector<int32_t>& prompt = active.request.prompt;
  const auto vocab = static_cast<size_t>(executor_->config().vocab_size);
  // The last token's logits are about the answer. A request that comes back tells nothing twice.
  const auto begin = std::max<int64_t>(entry.start.value, active.prompt_told);
  const auto end = std::min<int64_t>(entry.start.value + static_cast<int64_t>(entry.ids.size()),
                                     static_cast<int64_t>(prompt.size()) - 1);
  for (int64_t first = begin; first < end; first += kRowsAtOnce) {
    const auto last = std::min<int64_t>(first + kRowsAtOnce, end);
    std::vector<int32_t> rows;
    for (int64_t position = first; position < last; ++position) {
      rows.push_back(static_cast<int32_t>(first_row + position - entry.start.value));
    }
    CACHALOT_RETURN_IF_ERROR(executor_->Logits(rows, &logits_));
    for (int64_t position = first; position < last; ++position) {
      const auto logits =
          std::span(logits_).subspan(static_cast<size_t>(position - first) * vocab, vocab);
      active.request.listener->OnPromptToken(
          position + 1, LogprobsOf(logits, prompt[static_cast<size_t>(position + 1)],
                                   active.request.top_logprobs.value_or(0)));
    }
  }
  active.prompt_told = std::max(active.prompt_told, end);
  return {};
}

// False where the answer ends here.
bool StepLoop::Publish(const Sample& sample) {
  Active& active = *sample.active;
  active.last_token = sample.token;
  if (IsStop(active.request.sampling, sample.token)) {
    return false;
  }
  active.history.Add(sample.token);
  const int64_t index = active.usage.completion_tokens++;
  const bool goes_on =
      !active.request.constraint || active.request.constraint->Accept(sample.token);
  return active.request.listener->OnToken({sample.token, index, sample.logprobs}) && goes_on;
}

void StepLoop::End(const EndedRequest& ended) {
  const auto found = active_.find(ended.id);
  CACHALOT_CHECK(found != active_.end(), "request {} ended twice", ended.id);
  const Stopwatch watch(times_.publish);
  found->second.request.listener->OnEnd(ended.reason, found->second.usage);
  active_.erase(found);
}

}  // namespace cachalot
