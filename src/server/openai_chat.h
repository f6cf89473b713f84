// OpenAI's chat.completion and chat.completion.chunk.
#pragma once

#include <memory>

#include "http/http.h"
#include "server/answer.h"
#include "server/openai_answer.h"
#include "server/openai_chat_request.h"

namespace cachalot {

// Answers one chat, whole or as a stream, and completes the exchange. Of the request it reads how the
// answer is to look; ids of calls are CallId of the head's id.
//
// Of a stream: the head at OnStart; each choice begins with its role when its first token comes, its
// logprobs go with the next chunk, its finish reason is its last. A fault of any choice ends the
// whole: an answer that is not streamed is an error then, a stream has the error before [DONE].
std::shared_ptr<AnswerSink> NewOpenAiChatSink(std::shared_ptr<HttpExchange> exchange,
                                              OpenAiHead head, const OpenAiChatRequest& request);

}  // namespace cachalot
