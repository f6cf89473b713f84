// What an answer's content has to be, as OpenAI's dialects ask for it.
//
//   {type: text} or {type: json_object}
//   {type: json_schema, json_schema: {name, description, schema, strict}}    chat: response_format
//   {type: json_schema, name, description, schema, strict}                   responses: text.format
#pragma once

#include <optional>

#include "base/result.h"
#include "io/json.h"
#include "server/generation_request.h"
#include "server/json_fields.h"

namespace cachalot {

struct FormatFields {
  AnswerFormat format;
  // The whole member for the prompt (Message::response_format); absent for text.
  std::optional<OrderedJson> prompt;
};

// A schema is enforced whatever `strict` says; a missing one allows any JSON. Whether it can be
// enforced is for the generator to see.
Result<FormatFields> ReadResponseFormat(const JsonFields& fields, const char* name);

}  // namespace cachalot
