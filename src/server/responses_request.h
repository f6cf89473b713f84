// The body of POST /v1/responses, OpenAI's Responses API. Stateless: a conversation comes whole with
// every request, and what asks for a stored one is refused.
//
// Tools that the client runs reach the model as functions: functions, also those of a namespace
// ("namespace.name"), custom tools (one string, "input"; a grammar is told to the model, not
// enforced), the local shell. Hosted tools (web_search, file_search, mcp, …) are passed over, as
// clients send them unasked; to force one is refused. Of two tools of one name the first counts.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

// Whose call an item of the answer is.
struct ResponsesTool {
  enum class Kind : uint8_t { kFunction, kCustom, kLocalShell };
  Kind kind = Kind::kFunction;
  std::string name;
  std::string name_space;  // empty: none
};

struct ResponsesRequest {
  GenerationRequest generation;
  std::map<std::string, ResponsesTool> tools;  // by the name that the model knows
  bool stream = false;
  bool shows_summary = false;    // reasoning goes out as its own summary, not as reasoning text
  bool seals_reasoning = false;  // with encrypted_content
  // What a response repeats of its request, in the order of a response: instructions to truncation.
  // May hold integers of any size: only DumpPythonJson writes it.
  OrderedJson settings;
};

Result<ResponsesRequest> ReadResponsesRequest(const JsonFields& fields,
                                              const RequestDefaults& defaults);

}  // namespace cachalot
