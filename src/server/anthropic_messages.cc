#include "server/anthropic_messages.h"

#include <optional>
#include <utility>
#include <vector>

#include "chat/python_json.h"
#include "server/anthropic_request.h"
#include "server/generator.h"
#include "server/request_body.h"
#include "server/sse.h"

namespace cachalot {
namespace {

using Event = CompletionEvent;

// Clients send it back and never look into it.
constexpr const char* kSignature = "Y2FjaGFsb3Q=";

enum class BlockKind { kThinking, kText, kToolUse };

BlockKind KindOf(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReasoning:
      return BlockKind::kThinking;
    case Event::Kind::kContent:
      return BlockKind::kText;
    default:
      return BlockKind::kToolUse;
  }
}

// Whether a block begins with the event, after a block of the kind `open`.
bool BeginsBlock(const Event& event, std::optional<BlockKind> open) {
  return event.kind == Event::Kind::kCallStart ||
         (!event.text.empty() && KindOf(event) != BlockKind::kToolUse && open != KindOf(event));
}

// As it stands when it begins.
OrderedJson NewBlock(const Event& event, const MessageHead& head) {
  switch (KindOf(event)) {
    case BlockKind::kThinking:
      return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    case BlockKind::kText:
      return {{"type", "text"}, {"text", ""}};
    case BlockKind::kToolUse:
      break;
  }
  return {{"type", "tool_use"},
          {"id", ToolUseIdOfCall(CallId(head.message_id, 0, event.call))},
          {"name", event.text},
          {"input", OrderedJson::object()}};
}

// Anthropic's input_tokens are those that were not found in the cache.
OrderedJson UsageJson(const AnswerUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning_tokens}}},
          {"service_tier", "standard"}};
}

// The whole message, or as it stands when it begins, where `end` is null.
OrderedJson MessageJson(const MessageHead& head, OrderedJson content, OrderedJson end,
                        const AnswerUsage& usage) {
  OrderedJson message = {{"id", head.message_id},         {"type", "message"},
                         {"role", "assistant"},           {"model", head.model},
                         {"content", std::move(content)}, {"stop_reason", nullptr},
                         {"stop_sequence", nullptr},      {"usage", UsageJson(usage)}};
  if (!end.is_null()) {
    message.update(end);
  }
  return message;
}

// What went wrong; nullopt where nothing did.
std::optional<ApiError> FailureOf(const AnswerEnd& end) {
  switch (end.finish) {
    case AnswerFinish::kCancelled:
      return ApiError(503, "the answer was cancelled: the server ends");
    case AnswerFinish::kDeadline:
      return ApiError(504, "the answer took longer than the request's timeout");
    case AnswerFinish::kFailed:
      return ApiError(500, "the device failed while it computed the answer");
    default:
      return std::nullopt;
  }
}

OrderedJson EndJson(const AnswerEnd& end) {
  switch (end.finish) {
    case AnswerFinish::kStopString:
      return {{"stop_reason", "stop_sequence"}, {"stop_sequence", end.stop}};
    case AnswerFinish::kToolCalls:
      return {{"stop_reason", "tool_use"}, {"stop_sequence", nullptr}};
    case AnswerFinish::kLength:
      return {{"stop_reason", "max_tokens"}, {"stop_sequence", nullptr}};
    default:
      return {{"stop_reason", "end_turn"}, {"stop_sequence", nullptr}};
  }
}

HttpHeaders RequestIdHeader(const std::string& request_id) { return {{"request-id", request_id}}; }

void RespondJson(HttpExchange& exchange, const std::string& request_id, const OrderedJson& json) {
  HttpResponse response;
  response.body = DumpPythonJson(json);  // integers of any size in calls stay exact
  response.headers = RequestIdHeader(request_id);
  exchange.Respond(std::move(response));
}

class MessageSink final : public AnswerSink {
 public:
  MessageSink(std::shared_ptr<HttpExchange> exchange, MessageHead head)
      : exchange_(std::move(exchange)), head_(std::move(head)) {}

  void OnStart(int64_t /*prompt_tokens*/) override {}

  void OnPiece(const AnswerPiece& piece) override {
    for (const Event& event : piece.events) {
      if (BeginsBlock(event, open_)) {
        blocks_.push_back({NewBlock(event, head_), ""});
        open_ = KindOf(event);
      }
      if (event.kind != Event::Kind::kCallStart && !event.text.empty()) {
        blocks_.back().text += event.text;
      }
    }
  }

  void OnChoiceEnd(int64_t /*choice*/, const AnswerEnd& end) override { end_ = end; }

  void OnEnd(const AnswerUsage& usage) override {
    if (const std::optional<ApiError> failure = FailureOf(end_)) {
      return exchange_->Respond(MessagesErrorResponse(*failure, head_.request_id));
    }
    OrderedJson content = OrderedJson::array();
    for (Block& block : blocks_) {
      content.push_back(Finished(std::move(block)));
    }
    RespondJson(*exchange_, head_.request_id,
                MessageJson(head_, std::move(content), EndJson(end_), usage));
  }

 private:
  struct Block {
    OrderedJson json;
    std::string text;  // thinking, text, or the input's JSON
  };

  static OrderedJson Finished(Block block) {
    const std::string type = block.json["type"];
    if (type != "tool_use") {
      block.json[type] = std::move(block.text);
      if (type == "thinking") {
        block.json["signature"] = kSignature;
      }
      return std::move(block.json);
    }
    // Arguments that the length cut off are no JSON.
    Result<OrderedJson> input = ParsePythonJson(block.text, "input");
    if (input && input->is_object()) {
      block.json["input"] = *std::move(input);
    }
    return std::move(block.json);
  }

  const std::shared_ptr<HttpExchange> exchange_;
  const MessageHead head_;
  std::vector<Block> blocks_;
  std::optional<BlockKind> open_;  // the kind of the last block
  AnswerEnd end_;
};

std::string StreamEvent(std::string_view type, OrderedJson members) {
  OrderedJson event = {{"type", type}};
  event.update(members);
  return SseEvent(type, event);
}

class MessageStreamSink final : public AnswerSink {
 public:
  MessageStreamSink(std::shared_ptr<HttpExchange> exchange, MessageHead head)
      : exchange_(std::move(exchange)), head_(std::move(head)) {}

  void OnStart(int64_t prompt_tokens) override {
    const std::string ping = StreamEvent("ping", OrderedJson::object());
    HttpStream stream;
    stream.headers = RequestIdHeader(head_.request_id);
    stream.life_sign = ping;
    exchange_->BeginStream(std::move(stream));
    AnswerUsage usage;
    usage.prompt_tokens = prompt_tokens;
    OrderedJson message = MessageJson(head_, OrderedJson::array(), OrderedJson(), usage);
    exchange_->Write(StreamEvent("message_start", {{"message", std::move(message)}}) + ping);
  }

  void OnPiece(const AnswerPiece& piece) override {
    std::string out;
    for (const Event& event : piece.events) {
      if (BeginsBlock(event, open_)) {
        out += CloseBlock();
        out += StreamEvent("content_block_start",
                           {{"index", index_}, {"content_block", NewBlock(event, head_)}});
        open_ = KindOf(event);
      }
      out += Delta(event);
      if (event.kind == Event::Kind::kCallEnd) {
        out += CloseBlock();
      }
    }
    if (!out.empty()) {
      exchange_->Write(std::move(out));
    }
  }

  void OnChoiceEnd(int64_t /*choice*/, const AnswerEnd& end) override { end_ = end; }

  void OnEnd(const AnswerUsage& usage) override {
    if (const std::optional<ApiError> failure = FailureOf(end_)) {
      exchange_->Write(SseEvent("error", ErrorBody(Dialect::kAnthropic, *failure)));
    } else {
      exchange_->Write(
          CloseBlock() +
          StreamEvent("message_delta", {{"delta", EndJson(end_)}, {"usage", UsageJson(usage)}}) +
          StreamEvent("message_stop", OrderedJson::object()));
    }
    exchange_->Finish();
  }

 private:
  std::string Delta(const Event& event) const {
    if (event.text.empty() || event.kind == Event::Kind::kCallStart) {
      return "";
    }
    switch (KindOf(event)) {
      case BlockKind::kThinking:
        return DeltaEvent({{"type", "thinking_delta"}, {"thinking", event.text}});
      case BlockKind::kText:
        return DeltaEvent({{"type", "text_delta"}, {"text", event.text}});
      case BlockKind::kToolUse:
        break;
    }
    return DeltaEvent({{"type", "input_json_delta"}, {"partial_json", event.text}});
  }

  std::string DeltaEvent(OrderedJson delta) const {
    return StreamEvent("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
  }

  std::string CloseBlock() {
    if (!open_) {
      return "";
    }
    std::string out;
    if (open_ == BlockKind::kThinking) {
      out = DeltaEvent({{"type", "signature_delta"}, {"signature", kSignature}});
    }
    out += StreamEvent("content_block_stop", {{"index", index_}});
    open_.reset();
    ++index_;
    return out;
  }

  const std::shared_ptr<HttpExchange> exchange_;
  const MessageHead head_;
  int64_t index_ = 0;  // of the open block, or of the next
  std::optional<BlockKind> open_;
  AnswerEnd end_;
};

ApiStatus StartMessage(Generator& generator, const std::shared_ptr<HttpExchange>& exchange,
                       const std::string& request_id) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(exchange->request()));
  const JsonFields fields(body);
  MessageHead head = {NewId("msg_"), request_id, {}};
  CACHALOT_ASSIGN_OR_RETURN(head.model, generator.ModelName(fields));
  CACHALOT_ASSIGN_OR_RETURN(MessagesRequest request,
                            ReadMessagesRequest(fields, generator.NewDefaults()));
  const std::string id = head.message_id;
  std::shared_ptr<AnswerSink> sink = request.stream
                                         ? NewMessageStreamSink(exchange, std::move(head))
                                         : NewMessageSink(exchange, std::move(head));
  return generator.Start(std::move(request.generation), id, exchange, std::move(sink));
}

ApiResult<int64_t> CountTokens(const Generator& generator, const HttpRequest& request) {
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(request));
  const JsonFields fields(body);
  CACHALOT_RETURN_IF_ERROR(generator.ModelName(fields));
  CACHALOT_ASSIGN_OR_RETURN(const GenerationRequest prompt, ReadAnthropicPrompt(fields));
  return generator.CountPromptTokens(prompt);
}

}  // namespace

HttpResponse MessagesErrorResponse(const ApiError& error, const std::string& request_id) {
  ApiError told = error;
  if (error.code == "context_length_exceeded") {
    told.message.insert(0, "prompt is too long: ");
  }
  HttpResponse response = ErrorResponse(Dialect::kAnthropic, told);
  if (error.code == kNoThreads) {
    OrderedJson body = ErrorBody(Dialect::kAnthropic, told);
    body["error"]["details"] = {{"error_code", kNoThreads}};
    response.body = DumpJson(body);
  }
  response.headers.emplace_back("request-id", request_id);
  return response;
}

std::shared_ptr<AnswerSink> NewMessageSink(std::shared_ptr<HttpExchange> exchange,
                                           MessageHead head) {
  return std::make_shared<MessageSink>(std::move(exchange), std::move(head));
}

std::shared_ptr<AnswerSink> NewMessageStreamSink(std::shared_ptr<HttpExchange> exchange,
                                                 MessageHead head) {
  return std::make_shared<MessageStreamSink>(std::move(exchange), std::move(head));
}

void ServeMessages(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  const std::string request_id = NewId("req_");
  if (const ApiStatus status = StartMessage(generator, exchange, request_id); !status) {
    exchange->Respond(MessagesErrorResponse(status.error(), request_id));
  }
}

void ServeCountTokens(Generator& generator, std::shared_ptr<HttpExchange> exchange) {
  const std::string request_id = NewId("req_");
  const ApiResult<int64_t> count = CountTokens(generator, exchange->request());
  if (!count) {
    return exchange->Respond(MessagesErrorResponse(count.error(), request_id));
  }
  RespondJson(*exchange, request_id, {{"input_tokens", *count}});
}

}  // namespace cachalot
