// Tools as Anthropic's clients declare and choose them.
#pragma once

#include <vector>

#include "base/result.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

struct AnthropicTools {
  std::vector<OrderedJson> functions;  // {name, description, parameters, strict} each
  ToolPolicy policy;
};

// Of the members `tools` and `tool_choice`; with the choice "none" there are no functions.
Result<AnthropicTools> ReadAnthropicTools(const JsonFields& fields);

}  // namespace cachalot
