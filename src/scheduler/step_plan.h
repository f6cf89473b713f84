// StepPlan: one decision of the scheduler. What to copy, then what to run.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/cache_move.h"
#include "scheduler/request.h"

namespace cachalot {

// The place of a token that the step before has yet to sample.
inline constexpr int32_t kUnknownToken = -1;

// Tokens [start, start + ids.size()) of a request; they have room in the cache.
struct PlannedRequest {
  RequestId id;
  RequestSlot slot;
  TokenPos start;
  std::vector<int32_t> ids;
  bool samples = false;  // the last token's logits give the request's next token

  bool operator==(const PlannedRequest&) const = default;
};

struct StepPlan {
  int64_t number = 0;                    // from 1
  std::vector<CacheMove> moves;          // before the step, in this order
  std::vector<PlannedRequest> requests;  // may be empty: then there is no step
  std::vector<DiskFetch> fetches;        // to be begun, and reported by Scheduler::Fetched
  std::vector<EndedRequest> ended;       // by the scheduler, since the last plan

  bool operator==(const StepPlan&) const = default;
};

// What a step that samples has found for a request.
struct SampledToken {
  RequestId id;
  int32_t token = 0;
  bool stop = false;  // the request ends here

  bool operator==(const SampledToken&) const = default;
};

}  // namespace cachalot
