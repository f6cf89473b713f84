// Tools, and whether they have to be called, as OpenAI's dialects write them: the functions that a
// prompt declares and the policy that an answer obeys.
//
//   tools: [{type: function, function: {name, description, parameters, strict}}]      chat
//          [{type: function, name, description, parameters, strict}]                  responses
//   tool_choice: auto, none, required, {type: function, …} or {type: allowed_tools, …}
//   parallel_tool_calls: true or false
//   functions: [{name, …}] and function_call: auto, none or {name}                    chat of old
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "io/json.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

inline constexpr size_t kMaxToolNameBytes = 256;

struct ToolFields {
  // What the prompt declares, as Message::tools has it: each function's object as it came, without
  // the `type` of the flat form. Empty where tool_choice is "none"; of "allowed_tools" in mode auto
  // only the allowed ones.
  std::vector<OrderedJson> functions;
  ToolPolicy policy;
  bool of_old = false;  // `functions`: the answer has a function_call in place of tool_calls
};

// The member "name" of a function, by the rules below.
Result<std::string> ReadToolName(const JsonFields& function);

// The two forms of a tool, and of a choice, may be mixed. A type other than "function" is refused.
// Names are unique, without quotes, '<', '>' and control characters, which the prompt's markup has
// no way to write; parameters are an object or absent. A tool that the choice names has to be
// declared.
Result<ToolFields> ReadToolFields(const JsonFields& fields);

// Puts the declarations where the prompt format has them: in the first system message; where there is
// none, an empty one is put first.
void DeclareInPrompt(std::vector<OrderedJson> functions, std::optional<OrderedJson> response_format,
                     std::vector<Message>* messages);

}  // namespace cachalot
