// What a client of Anthropic's Messages API asks for ("Create a Message" and "Count tokens in a
// Message" of its reference): the body, as the generator takes it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api_error.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

struct MessagesRequest {
  GenerationRequest generation;
  bool stream = false;
};

// The whole body but `model`, over the defaults. Fields that mean nothing here (metadata,
// cache_control, context_management, mcp_servers, container, service_tier) are ignored, as are
// unknown ones. Not so `thread`, which asks the server to keep the conversation, so that later
// requests need not hold it: the error's code is kNoThreads, at which SDKs go on without.
ApiResult<MessagesRequest> ReadMessagesRequest(const JsonFields& fields,
                                               const RequestDefaults& defaults);

inline constexpr std::string_view kNoThreads = "thread_unsupported_request";

// What makes the prompt, which is all that a count of tokens needs: system, messages, tools,
// tool_choice, thinking and the format of the answer.
//
// - A system message among `messages` is system text if it comes first; later ones are shown to the
//   model with the user's words, since the prompt format has no place for them.
// - A last message of the assistant is continued, without thinking.
// - Of what a model without eyes and hosted tools cannot have, images and documents of a user are
//   refused; in results of tools "[Unsupported TYPE]" stands for it; the assistant's messages go
//   without. Plain text documents are text.
// - Tools that run at the client but are declared by type alone (bash, text_editor, memory) get the
//   parameters that Anthropic publishes; hosted ones are left out.
Result<GenerationRequest> ReadAnthropicPrompt(const JsonFields& fields);

// Ids of calls: "toolu_…" to clients, "call_…" to the generator, which knows its own again. Other
// ids stay as they are.
std::string ToolUseIdOfCall(std::string_view call_id);
std::string CallIdOfToolUse(std::string_view tool_use_id);

}  // namespace cachalot
