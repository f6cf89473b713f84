// Anthropic's Messages API at its door: /v1/messages and /v1/messages/count_tokens, as its SDKs and
// Claude Code speak it.
#pragma once

#include <memory>
#include <string>

#include "http/http.h"
#include "server/answer.h"

namespace cachalot {

class Generator;

void ServeMessages(Generator& generator, std::shared_ptr<HttpExchange> exchange);
void ServeCountTokens(Generator& generator, std::shared_ptr<HttpExchange> exchange);

struct MessageHead {
  std::string message_id;  // "msg_…"; ids of calls are made of it
  std::string request_id;  // "req_…", the header request-id
  std::string model;
};

// The answer as one message.
std::shared_ptr<AnswerSink> NewMessageSink(std::shared_ptr<HttpExchange> exchange,
                                           MessageHead head);
// The answer as events. The head and message_start go out at once; until the end message_start's
// usage is all that is known: the whole prompt, nothing of it from the cache.
std::shared_ptr<AnswerSink> NewMessageStreamSink(std::shared_ptr<HttpExchange> exchange,
                                                 MessageHead head);

}  // namespace cachalot
