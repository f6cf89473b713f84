// What a caller asks of the engine, and how it hears of the answer. Token ids in, token ids out:
// text is the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sampling/logprobs.h"
#include "sampling/params.h"
#include "sampling/token_constraint.h"
#include "scheduler/request.h"

namespace cachalot {

struct GeneratedToken {
  int32_t id = 0;
  int64_t index = 0;                      // in the answer, from 0
  std::optional<TokenLogprobs> logprobs;  // where they were asked for
};

struct RequestUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, found in the prefix index
  int64_t completion_tokens = 0;
};

// Hears of one request, on the engine's thread; must not wait (docs/contracts/engine.md, E3).
class RequestListener {
 public:
  virtual ~RequestListener() = default;
  // Tokens of the prompt that are in the cache by now, as often as there are more than ever; how many
  // of them were found there, as in the usage.
  virtual void OnPrompt(int64_t /*done*/, int64_t /*total*/, int64_t /*cached*/) {}
  // Logprobs of the prompt's token `index`, 1 to the last, given those before it.
  virtual void OnPromptToken(int64_t /*index*/, const TokenLogprobs& /*logprobs*/) {}
  // False: the answer ends with this token.
  virtual bool OnToken(const GeneratedToken& token) = 0;
  // The last call.
  virtual void OnEnd(EndReason reason, const RequestUsage& usage) = 0;
};

struct EngineRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t max_new_tokens = 0;           // at least 1; the context and the cache may allow fewer
  std::optional<int64_t> top_logprobs;  // 0 to kMaxTopLogprobs; nullopt: no logprobs
  bool prompt_logprobs = false;         // with top_logprobs: runs the whole prompt
  int32_t priority = 0;                 // higher runs first
  std::optional<double> timeout;        // seconds from now on
  std::unique_ptr<TokenConstraint> constraint;  // null: any token may come
  std::unique_ptr<RequestListener> listener;
};

}  // namespace cachalot
