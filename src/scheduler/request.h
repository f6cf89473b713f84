// What the scheduler knows of a request: tokens, order and limits. Nothing of text or sampling.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/strong_id.h"

namespace cachalot {

using RequestId = StrongId<struct RequestIdTag, int64_t>;

// Nanoseconds since some beginning of the caller's choice.
using Ticks = int64_t;
inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

struct RequestSpec {
  RequestId id;  // not in use
  std::vector<int32_t> prompt;
  int64_t max_new_tokens = 0;  // at least 1; the context and the cache may allow fewer
  int32_t priority = 0;        // higher runs first
  Ticks deadline = kNever;
  bool run_whole_prompt = false;  // take nothing from the prefix index: every token's logits count

  bool operator==(const RequestSpec&) const = default;
};

enum class EndReason : uint8_t { kStopped, kLength, kCancelled, kDeadline, kFailed };
const char* NameOf(EndReason reason);

struct EndedRequest {
  RequestId id;
  EndReason reason = EndReason::kStopped;

  bool operator==(const EndedRequest&) const = default;
};

}  // namespace cachalot
