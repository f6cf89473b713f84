// What OpenAI's clients call, but for /v1/responses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "http/http.h"
#include "io/json.h"
#include "server/generator.h"

namespace cachalot {

// POST /v1/chat/completions and /v1/completions. On a worker thread; each answers the exchange, with
// an error if need be, and the generator outlives the answer.
void ServeOpenAiChat(Generator& generator, std::shared_ptr<HttpExchange> exchange);
void ServeOpenAiCompletions(Generator& generator, std::shared_ptr<HttpExchange> exchange);

// GET /v1/models: the model under its name and its aliases.
OrderedJson OpenAiModelsBody(const ServedModel& model, int64_t max_context);
// GET /v1/models/{name}; 404 for a name that is none of these.
HttpResponse OpenAiModelResponse(const ServedModel& model, int64_t max_context,
                                 std::string_view name);

}  // namespace cachalot
