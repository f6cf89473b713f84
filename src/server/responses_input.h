// The items of a conversation as OpenAI's Responses API has them, to messages and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "io/json.h"
#include "server/json_fields.h"

namespace cachalot {

struct ResponsesInput {
  std::vector<Message> messages;
  // What items brought tools: `tools[i]` is the list of the item at the place `tool_places[i]`.
  std::vector<const OrderedJson*> tools;
  std::vector<std::string> tool_places;
};

// `instructions` and `input`. What the assistant's items between two others say (reasoning, text,
// calls) is one message. System and developer items at the beginning join the instructions; later
// ones are read as the user's, since a prompt has no other place for them. Items of tools that
// this server does not run are passed over; an item that is kept elsewhere (item_reference) and
// images or files are refused. Those that a tool brought stand as "[Unsupported TYPE]": no client
// could take them back. Results point into what `fields` reads.
Result<ResponsesInput> ReadResponsesInput(const JsonFields& fields);

// A tool of a namespace, as the model knows it.
std::string QualifiedToolName(std::string_view name_space, std::string_view name);
// A custom tool's input, as arguments of the function that the model sees.
std::string CustomToolArguments(const std::string& input);

// `encrypted_content`: opaque to clients, who send it back so that the server need not keep the
// reasoning. It hides nothing.
std::string SealReasoning(std::string_view text);
// Nothing where SealReasoning did not write it.
std::optional<std::string> UnsealReasoning(std::string_view sealed);

}  // namespace cachalot
