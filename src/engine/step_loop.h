// StepLoop: the engine without its thread. Each Step is one plan of the scheduler, carried out:
// plan, commit, execute, sample, publish. docs/contracts/engine.md is what it promises.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/executor.h"
#include "engine/page_mover.h"
#include "engine/request.h"
#include "sampling/sampler.h"
#include "scheduler/scheduler.h"

namespace cachalot {

// Where the time of the steps went, in nanoseconds.
struct StepTimes {
  int64_t steps = 0;
  int64_t plan = 0;     // scheduler and cache
  int64_t commit = 0;   // moves and tables
  int64_t execute = 0;  // the model, the logits included
  int64_t sample = 0;
  int64_t publish = 0;  // listeners
};

struct StepLoopOptions {
  SchedulerOptions scheduler;
  // The next plan is made while a step runs: worth it where the device runs behind the host.
  bool plan_ahead = false;
  // Before each plan, for drills.
  std::function<void(Scheduler&)> before_plan;
  DiskTier* disk = nullptr;  // null: none
  // A fetch from disk has ended; called on the disk tier's thread, to be passed on to Fetched.
  std::function<void(int64_t fetch, bool ok)> on_fetched;
};

class StepLoop {
 public:
  // The executor's pools are of the scheduler's geometry.
  StepLoop(std::unique_ptr<Executor> executor, const StepLoopOptions& options);

  // `request` is one that Engine::Submit lets pass. Its listener hears the end even if it cannot run.
  void Submit(RequestId id, EngineRequest request, Ticks now);
  void Cancel(RequestId id) { scheduler_.Cancel(id); }
  void CancelAll();
  void Fetched(int64_t fetch, bool ok);
  // One turn.
  enum class Turn : uint8_t {
    kRan,
    kWaits,  // nothing could run: what is there waits for the disk
    kIdle,   // nobody is left
  };
  Turn Step(Ticks now);

  Scheduler& scheduler() { return scheduler_; }
  const Executor& executor() const { return *executor_; }
  const StepTimes& times() const { return times_; }
  int64_t host_bytes_moved() const { return mover_.bytes_moved(); }

 private:
  struct Active {
    EngineRequest request;
    TokenHistory history;
    RequestUsage usage;
    int64_t prompt_done = 0;  // as the listener knows it
    int64_t prompt_told = 0;  // tokens of the prompt whose followers have been told
    int32_t last_token = 0;
  };
  // One row of logits and what came of it.
  struct Sample {
    RequestId id;
    Active* active = nullptr;
    int32_t row = 0;  // of the step's tokens
    int32_t token = 0;
    std::optional<TokenLogprobs> logprobs;
  };

  bool CarryMoves(const StepPlan& plan);
  void BeginFetches(const StepPlan& plan);
  void Issue(const StepPlan& plan);
  bool Finish();
  void Fail(const Status& status);
  Status SampleTokens(std::vector<Sample>& samples);
  Status PublishPrompts();
  Status PublishPrompt(Active& active, const PlannedRequest& entry, int64_t first_row);
  bool Publish(const Sample& sample);
  void End(const EndedRequest& ended);

  std::unique_ptr<Executor> executor_;
  const StepLoopOptions options_;
  Scheduler scheduler_;
  PageMover mover_;
  std::unordered_map<RequestId, Active> active_;
  // The step on the device: entries whose requests were there when it was issued.
  std::optional<std::vector<PlannedRequest>> in_flight_;
  std::vector<float> logits_;
  StepTimes times_;
  int64_t fetches_ = 0;  // under way
};

}  // namespace cachalot
