#include "server/openai_endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "io/utf8.h"
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
                            ReadOpenAiChatRequest(fields, generator.defaults()));
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
                            ReadOpenAiCompletionsRequest(fields, generator.defaults()));
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

OrderedJson ModelBody(const ServedModel& model, int64_t max_context, std::string_view name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "cachalot"},
          {"max_model_len", max_context}};
}

}  // namespace

void ServeOpenAiChat(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  RespondIfError(StartChat(generator, exchange), *exchange);
}

void ServeOpenAiCompletions(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  RespondIfError(StartCompletions(generator, exchange), *exchange);
}

OrderedJson OpenAiModelsBody(const ServedModel& model, int64_t max_context) {
  OrderedJson list = OrderedJson::array({ModelBody(model, max_context, model.name)});
  for (const std::string& alias : model.aliases) {
    list.push_back(ModelBody(model, max_context, alias));
  }
  return {{"object", "list"}, {"data", std::move(list)}};
}

HttpResponse OpenAiModelResponse(const ServedModel& model, int64_t max_context,
                                 std::string_view name) {
  if (name == model.name || std::ranges::find(model.aliases, name) != model.aliases.end()) {
    return {.body = DumpJson(ModelBody(model, max_context, name))};
  }
  constexpr size_t kMaxShownBytes = 100;
  return ErrorResponse(Dialect::kOpenAi,
                       ApiError(404,
                                fmt::format("the model \"{}\" is not served here, \"{}\" is",
                                            Utf8Prefix(name, kMaxShownBytes), model.name),
                                "model_not_found", "model"));
}

}  // namespace cachalot
