// Endpoints about the model, in no dialect of their own: which it is, its tokens, whether it still
// answers.
#pragma once

#include <memory>

#include "http/http.h"
#include "server/generator.h"

namespace cachalot {

void ServeModels(Generator& generator, std::shared_ptr<HttpExchange> exchange);
void ServeModel(Generator& generator, std::shared_ptr<HttpExchange> exchange);  // /v1/models/NAME
// {prompt or messages (with tools, thinking), return_token_strs} → {count, max_model_len, tokens,
// token_strs}, as in vLLM.
void ServeTokenize(Generator& generator, std::shared_ptr<HttpExchange> exchange);
// {tokens} → {prompt}.
void ServeDetokenize(Generator& generator, std::shared_ptr<HttpExchange> exchange);
// Generates a token: 200, or 503 where that fails, as in SGLang.
void ServeHealthGenerate(Generator& generator, std::shared_ptr<HttpExchange> exchange);

}  // namespace cachalot
