#include "server/model_endpoints.h"

#include <utility>

#include "io/utf8.h"
#include "server/request_body.h"
#include "server/sampling_fields.h"
#include "server/thinking_fields.h"

namespace cachalot {
namespace {

constexpr size_t kMaxShownBytes = 100;

void Respond(HttpExchange& exchange, const ApiResult<OrderedJson>& body) {
  if (!body) {
    return exchange.Respond(ErrorResponse(Dialect::kOpenAi, body.error()));
  }
  HttpResponse response;
  response.body = DumpJson(*body);
  exchange.Respond(std::move(response));
}

OrderedJson ModelInfo(const Generator& generator) {
  const ServedModel& model = generator.model();
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "cachalot"},
          {"max_model_len", generator.engine().max_context()}};
}

ApiResult<GenerationRequest> ReadPrompt(const OrderedJson& body, const JsonFields& fields) {
  GenerationRequest request;
  const bool is_chat = fields.Find("messages") != nullptr;
  if (is_chat == (fields.Find("prompt") != nullptr)) {
    return tl::unexpected(ApiError(
        400,
        fmt::format("{} of prompt and messages, expected one of them", is_chat ? "both" : "none")));
  }
  if (!is_chat) {
    CACHALOT_ASSIGN_OR_RETURN(request.input, fields.RequiredText("prompt"));
    return request;
  }
  ChatInput chat;
  CACHALOT_ASSIGN_OR_RETURN(chat.messages, ParseChatInput(body));
  CACHALOT_ASSIGN_OR_RETURN(chat.thinking, ReadThinking(fields));
  request.input = std::move(chat);
  return request;
}

ApiResult<OrderedJson> Tokenize(const Generator& generator, const HttpRequest& http) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(http));
  const JsonFields fields(body);
  CACHALOT_ASSIGN_OR_RETURN(const GenerationRequest request, ReadPrompt(body, fields));
  bool with_texts = false;
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("return_token_strs"), &with_texts));
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, generator.PromptOf(request));
  OrderedJson answer = {{"count", ids.size()},
                        {"max_model_len", generator.engine().max_context()},
                        {"tokens", ids},
                        {"token_strs", nullptr}};
  if (with_texts) {
    OrderedJson texts = OrderedJson::array();
    for (const int32_t id : ids) {
      texts.push_back(ReplaceInvalidUtf8(generator.model().tokenizer->TokenBytes(id).value_or("")));
    }
    answer["token_strs"] = std::move(texts);
  }
  return answer;
}

ApiResult<OrderedJson> Detokenize(const Generator& generator, const HttpRequest& http) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(http));
  const JsonFields fields(body);
  if (fields.Find("tokens") == nullptr) {
    return tl::unexpected(
        ApiError(400, "tokens is missing, expected a list of token ids", "", "tokens"));
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                            ReadTokenIds(fields, "tokens", generator.model().defaults.vocab_size));
  CACHALOT_ASSIGN_OR_RETURN(const std::string text, generator.model().tokenizer->Decode(ids));
  return OrderedJson{{"prompt", ReplaceInvalidUtf8(text)}};
}

// Says whether a token came.
class HealthSink final : public AnswerSink {
 public:
  explicit HealthSink(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}
  void OnStart(int64_t /*prompt_tokens*/) override {}
  void OnPiece(const AnswerPiece& /*piece*/) override {}
  void OnChoiceEnd(int64_t /*choice*/, const AnswerEnd& end) override {
    if (end.finish == AnswerFinish::kFailed || end.finish == AnswerFinish::kCancelled) {
      error_ = {503, "a token was asked for and did not come"};
    }
  }
  void OnEnd(const AnswerUsage& /*usage*/) override {
    Respond(*exchange_, error_ ? ApiResult<OrderedJson>(tl::unexpected(*error_))
                               : OrderedJson{{"status", "ok"}});
  }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
  std::optional<ApiError> error_;
};

}  // namespace

void ServeModels(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  Respond(*exchange,
          OrderedJson{{"object", "list"}, {"data", OrderedJson::array({ModelInfo(generator)})}});
}

void ServeModel(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string_view name = std::string_view(exchange->request().path).substr(kPrefix.size());
  if (name == generator.model().name) {
    return Respond(*exchange, ModelInfo(generator));
  }
  Respond(*exchange, tl::unexpected(ApiError(
                         404,
                         fmt::format("no model \"{}\" here, expected \"{}\"",
                                     Utf8Prefix(name, kMaxShownBytes), generator.model().name),
                         "model_not_found", "model")));
}

void ServeTokenize(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  Respond(*exchange, Tokenize(generator, exchange->request()));
}

void ServeDetokenize(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  Respond(*exchange, Detokenize(generator, exchange->request()));
}

void ServeHealthGenerate(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  GenerationRequest request;
  request.input = std::string("1");
  request.sampling.temperature = 0;
  request.max_new_tokens = 1;
  const ApiStatus started = generator.Start(std::move(request), NewId("health-"), exchange,
                                            std::make_shared<HealthSink>(exchange));
  if (!started) {
    exchange->Respond(ErrorResponse(Dialect::kOpenAi, {503, started.error().message}));
  }
}

}  // namespace cachalot
