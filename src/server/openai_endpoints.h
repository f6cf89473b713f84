// OpenAI's chat and text completions at their door.
#pragma once

#include <memory>

#include "http/http.h"
#include "server/generator.h"

namespace cachalot {

// POST /v1/chat/completions and /v1/completions. On a worker thread; each answers the exchange, with
// an error if need be, and the generator outlives the answer.
void ServeOpenAiChat(Generator& generator, std::shared_ptr<HttpExchange> exchange);
void ServeOpenAiCompletions(Generator& generator, std::shared_ptr<HttpExchange> exchange);

}  // namespace cachalot
