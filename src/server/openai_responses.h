// POST /v1/responses.
#pragma once

#include <memory>

#include "http/http.h"

namespace cachalot {

class Generator;

// Answers the exchange, as a stream where its body says so. The generator outlives the answer.
void ServeResponses(Generator& generator, std::shared_ptr<HttpExchange> exchange);

}  // namespace cachalot
