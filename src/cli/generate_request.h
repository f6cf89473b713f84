// The input of `cachalot generate`: JSON lines, a request each.
//
//   {"id": "a", "prompt": "Once", "max_tokens": 64, "temperature": 0.7}
//   {"id": 2, "messages": [{"role": "user", "content": "Hi"}], "n": 4, "logprobs": true}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "server/generation_request.h"

namespace cachalot {

// As the request spells it: 1 and "1" are two requests.
using LineId = std::variant<int64_t, std::string>;

struct GenerateRequest : GenerationRequest {
  LineId id;
};

inline constexpr int64_t kMaxRequestBytes = int64_t{64} << 20;

// One line. Its fields: id, a string or an integer; one of prompt (text), token_ids, messages (then
// also tools, tool_choice, response_format, thinking, reasoning_effort); max_tokens or
// max_completion_tokens or max_new_tokens, min_tokens, temperature, top_p, top_k (-1 and 0: all),
// min_p, seed, frequency_penalty, presence_penalty, repetition_penalty, logit_bias, stop,
// stop_token_ids, ignore_eos, n, logprobs (true, with top_logprobs; or their number), echo, priority,
// timeout (seconds). Null is as absent, other fields are ignored. Without a seed it follows from the
// default's and `line_number`, so that equal prompts get answers of their own and the same file
// the same answers. Errors begin with `place`.
Result<GenerateRequest> ParseGenerateRequest(std::string_view line, const std::string& place,
                                             int64_t line_number, const RequestDefaults& defaults);

// All lines, blank ones left out. No id may stand twice. Errors begin with `source` and the number
// of the line, from 1.
Result<std::vector<GenerateRequest>> ParseGenerateRequests(std::string_view text,
                                                           const std::string& source,
                                                           const RequestDefaults& defaults);
Result<std::vector<GenerateRequest>> ReadGenerateRequests(const std::string& path,
                                                          const RequestDefaults& defaults);

}  // namespace cachalot
