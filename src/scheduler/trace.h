// A trace of the scheduler: its options, then every event and every plan, a JSON object a line.
// Replayed, the events give the same plans, or the first that differs is named. A trace begins with an
// empty cache: a scheduler that found pages on disk cannot be replayed.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"
#include "scheduler/step_plan.h"

namespace cachalot {

// What happened to a scheduler; views of the caller's data, good during the call alone.
struct SchedulerEvent {
  enum class Kind : uint8_t { kSubmit, kCancel, kPlan, kComplete, kFail, kRetract, kFetched };
  Kind kind = Kind::kPlan;
  const RequestSpec* spec = nullptr;           // kSubmit
  RequestId id;                                // kCancel, kRetract
  Ticks now = 0;                               // kPlan
  const StepPlan* plan = nullptr;              // kPlan: what came of it
  std::span<const SampledToken> sampled = {};  // kComplete
  int64_t fetch = 0;                           // kFetched
  bool ok = false;                             // kFetched
};

// The first line of a trace.
std::string TraceHeader(const SchedulerOptions& options);
std::string TraceLine(const SchedulerEvent& event);

struct ReplayResult {
  int64_t events = 0;
  int64_t plans = 0;
};
// `source` names the text in errors. kDataLoss: damaged, or a plan differs, which names the line.
Result<ReplayResult> ReplayTrace(std::string_view text, const std::string& source);

}  // namespace cachalot
