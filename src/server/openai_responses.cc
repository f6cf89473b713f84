#include "server/openai_responses.h"

#include <ctime>
#include <utility>

#include "server/api_error.h"
#include "server/generator.h"
#include "server/request_body.h"
#include "server/responses_request.h"
#include "server/responses_stream.h"
#include "server/turn_memory.h"

namespace cachalot {
namespace {

ApiStatus Start(Generator& generator, const std::shared_ptr<HttpExchange>& exchange) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(exchange->request()));
  const JsonFields fields(body);
  ResponsesHead head;
  CACHALOT_ASSIGN_OR_RETURN(head.model, generator.ModelName(fields));
  CACHALOT_ASSIGN_OR_RETURN(ResponsesRequest request,
                            ReadResponsesRequest(fields, generator.NewDefaults()));
  const std::string id = NewId("resp_");
  head.id = id;
  head.created = std::time(nullptr);
  head.call_ids = [id](int64_t call) { return CallId(id, /*choice=*/0, call); };
  GenerationRequest generation = std::move(request.generation);
  const auto sink = std::make_shared<ResponsesSink>(exchange, std::move(request), std::move(head));
  if (const ApiStatus status = generator.Start(std::move(generation), id, exchange, sink);
      !status) {
    sink->Refuse(status.error());
  }
  return {};
}

}  // namespace

void ServeResponses(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  if (const ApiStatus status = Start(generator, exchange); !status) {
    exchange->Respond(ErrorResponse(Dialect::kOpenAi, status.error()));
  }
}

}  // namespace cachalot
