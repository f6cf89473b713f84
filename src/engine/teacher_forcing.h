// Teacher forcing: the logits of every position of a given text, however its steps are cut.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/runner.h"

namespace cachalot {

enum class LogitsHead : uint8_t { kMain, kMtp };

struct TeacherForcingOptions {
  int64_t prefill = 0;  // the first tokens that go in chunks; the rest go one by one
  int64_t chunk = 0;    // tokens of a chunk, at most the runner's max_step_tokens
  LogitsHead head = LogitsHead::kMain;
};

// Takes [rows, vocab] of the next positions, in order.
using LogitsSink = std::function<Status(std::span<const float> rows)>;

// kMain gives a row per token; kMtp a row per token but the last, each from a token's streams and
// the token after it.
Status ForceTokens(ModelRunner& runner, std::span<const int32_t> ids,
                   const TeacherForcingOptions& options, const LogitsSink& sink);

}  // namespace cachalot
