// Anthropic's Messages API at its door: /v1/messages and /v1/messages/count_tokens, as its SDKs and
// Claude Code speak it.
#pragma once

#include <memory>
#include <string>

#include "http/http.h"
#include "server/answer.h"
#include "server/api_error.h"

namespace cachalot {

class Generator;

void ServeMessages(Generator& generator, std::shared_ptr<HttpExchange> exchange);
void ServeCountTokens(Generator& generator, std::shared_ptr<HttpExchange> exchange);

// With what clients look for: "prompt is too long" at the start of the message, at which Claude
// Code makes the conversation shorter; details.error_code where threads are asked for.
HttpResponse MessagesErrorResponse(const ApiError& error, const std::string& request_id);

struct MessageHead {
  std::string message_id;  // "msg_…"; ids of calls are made of it
  std::string request_id;  // "req_…", the header request-id
  std::string model;
};

// The answer as one message.
std::shared_ptr<AnswerSink> NewMessageSink(std::shared_ptr<HttpExchange> exchange,
                                           MessageHead head);
// The answer as events. The head and message_start go out at once, with the whole prompt as
// input_tokens: what the cache had of it is known with message_delta.
std::shared_ptr<AnswerSink> NewMessageStreamSink(std::shared_ptr<HttpExchange> exchange,
                                                 MessageHead head);

}  // namespace cachalot
