#include "server/openai_endpoints.h"

#include <ctime>
#include <utility>

#include "server/openai_chat.h"
#include "server/openai_chat_request.h"
#include "server/openai_completions.h"
#include "server/request_body.h"
#include "server/shared_exchange.h"

namespace cachalot {
namespace {

OpenAiHead NewHead(std::string_view id_prefix, std::string model) {
  return {.id = NewId(id_prefix), .created = std::time(nullptr), .model = std::move(model)};
}

ApiStatus StartChat(Generator& generator, const std::shared_ptr<HttpExchange>& exchange) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(exchange->request()));
  const JsonFields fields(body);
  CACHALOT_ASSIGN_OR_RETURN(std::string model, generator.ModelName(fields));
  CACHALOT_ASSIGN_OR_RETURN(OpenAiChatRequest request,
                            ReadOpenAiChatRequest(fields, generator.NewDefaults()));
  OpenAiHead head = NewHead("chatcmpl-", std::move(model));
  const std::string id = head.id;
  auto sink = NewOpenAiChatSink(exchange, std::move(head), request);
  return generator.Start(std::move(request.generation), id, exchange, std::move(sink));
}

ApiStatus StartCompletions(Generator& generator, const std::shared_ptr<HttpExchange>& exchange) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(exchange->request()));
  const JsonFields fields(body);
  CACHALOT_ASSIGN_OR_RETURN(std::string model, generator.ModelName(fields));
  CACHALOT_ASSIGN_OR_RETURN(OpenAiCompletionsRequest request,
                            ReadOpenAiCompletionsRequest(fields, generator.NewDefaults()));
  const OpenAiHead head = NewHead("cmpl-", std::move(model));
  const auto answer = std::make_shared<OpenAiCompletionsAnswer>(exchange, head, request);
  const auto listeners = CloseListeners::Of(*exchange);
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const ApiStatus started =
        generator.Start(std::move(request.prompts[i]), head.id,
                        std::make_shared<SharedExchange>(exchange, listeners),
                        OpenAiCompletionsAnswer::SinkOf(answer, static_cast<int64_t>(i)));
    if (!started) {
      // Prompts that have been started may be answering already, on the exchange's thread.
      exchange->Post([answer, listeners, error = started.error()] {
        answer->Fail(error);
        listeners->Close();
      });
      break;
    }
  }
  return {};
}

void RespondIfError(const ApiStatus& status, HttpExchange& exchange) {
  if (!status) {
    exchange.Respond(ErrorResponse(Dialect::kOpenAi, status.error()));
  }
}

}  // namespace

void ServeOpenAiChat(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  RespondIfError(StartChat(generator, exchange), *exchange);
}

void ServeOpenAiCompletions(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  RespondIfError(StartCompletions(generator, exchange), *exchange);
}

}  // namespace cachalot
