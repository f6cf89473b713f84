// What a client of Anthropic's Messages API asks for ("Create a Message" and "Count tokens in a Message"
// of its reference): the body, as the generator takes it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

struct MessagesRequest {
  GenerationRequest generation;
  bool stream = false;
};

// The whole body but `model`, over the defaults. Fields that have no meaning here (metadata,
// cache_control, context_management, mcp_servers, container, service_tier) are ignored, as are unknown
// ones.
Result<MessagesRequest> ReadMessagesRequest(const JsonFields& fields,
                                            const RequestDefaults& defaults);

// What makes the prompt: system, messages, tools, tool_choice, thinking and the format of the answer,
// which is all that a count of tokens needs.
//
// - A system message among `messages` is system text if it comes first; later ones are shown to the
//   model with the user's words, since the prompt format has no place for them.
// - A last message of the assistant is continued, without thinking.
// - What a model without eyes or hosted tools cannot have: images and documents of a user are refused,
//   "[Unsupported TYPE]" in results of tools, left out of the assistant's messages.
// - Tools that run at the client but whose schema Anthropic's models know by heart (bash, text_editor,
//   memory) are declared with that schema; hosted ones are left out.
Result<GenerationRequest> ReadAnthropicPrompt(const JsonFields& fields);

// Ids of calls: "toolu_…" to clients, "call_…" to the generator, which knows its own again. Other ids
// stay as they are.
std::string ToolUseIdOfCall(std::string_view call_id);
std::string CallIdOfToolUse(std::string_view tool_use_id);

}  // namespace cachalot
