// The body of POST /v1/chat/completions.
#pragma once

#include "base/result.h"
#include "server/generation_request.h"
#include "server/json_fields.h"
#include "server/openai_answer.h"

namespace cachalot {

struct OpenAiChatRequest {
  GenerationRequest generation;
  OpenAiStreamFields stream;
  bool return_progress = false;  // of a stream: how much of the prompt has been run, as it goes on
  bool of_old = false;           // the answer has a function_call in place of tool_calls
};

// Fields that are not known are ignored; `model` is the caller's. Of messages:
// - a developer message before all turns is system text, behind that of a system message if there is
//   one; later ones are what the prompt format makes of them;
// - content is text or a list of text parts, which blank lines join; it may be missing where an
//   assistant called or a tool had nothing to say;
// - an assistant's thoughts are its reasoning_content, or its reasoning;
// - the arguments of a call may be an object in place of its text.
Result<OpenAiChatRequest> ReadOpenAiChatRequest(const JsonFields& fields,
                                                const RequestDefaults& defaults);

}  // namespace cachalot
