// One answer for one request: prefill in chunks, then token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "sampling/sampler.h"

namespace cachalot {

struct GenerateOptions {
  SamplingParams sampling;  // its stop_ids end the answer and are not part of it
  int64_t max_new_tokens = 0;
};

enum class GenerateEnd : uint8_t {
  kStopToken,
  kLength,  // max_new_tokens, or the context is full
  kCancelled,
};

struct GenerateHooks {
  std::function<void(int64_t done, int64_t total)> on_prefill;  // after each chunk; may be empty
  std::function<void(int32_t id)> on_token;                     // as soon as it is known
  std::function<bool()> cancelled;  // asked before each step; may be empty
};

// Runs `prompt` after what the request already has and answers it. All but the answer's last token
// are then in the request's cache; when it is cancelled in the prompt, so is what was run of it.
// The repetition penalty sees `prompt` and the answer, not what the request had before.
Result<GenerateEnd> Generate(ModelRunner& runner, RequestSlot slot, std::span<const int32_t> prompt,
                             const GenerateOptions& options, const GenerateHooks& hooks);

}  // namespace cachalot
