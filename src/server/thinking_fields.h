// Whether and how hard to think, in every spelling that clients have for it, whatever the dialect:
//
//   thinking: true, false or {type: enabled, disabled or adaptive, budget_tokens}   Anthropic, DeepSeek
//   output_config: {effort}                                                         Anthropic
//   reasoning_effort                                                                OpenAI chat
//   reasoning: {effort, enabled, max_tokens}                         OpenAI responses, OpenRouter
//   enable_thinking, thinking_budget                                                Qwen's servers
//   chat_template_kwargs: {thinking, enable_thinking, reasoning_effort}             vLLM, SGLang
#pragma once

#include "base/result.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

// One answer from all of them: a switch decides over an effort, an effort over nothing; "none" and
// "disabled" switch off, any other effort, and a budget, on. Of several switches, or several efforts,
// the first in the order above counts. "adaptive" and a missing `type` leave the switch to the rest.
Result<ThinkingSetting> ReadThinking(const JsonFields& fields);

}  // namespace cachalot
