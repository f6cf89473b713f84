#include "server/openai_chat.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/utf8.h"
#include "server/turn_memory.h"

namespace cachalot {
namespace {

struct ChatChoice {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> calls;
  OrderedJson logprobs = OrderedJson::array();
  AnswerFinish finish = AnswerFinish::kStop;
};

OrderedJson NamedLogprobBody(const NamedLogprob& logprob) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : logprob.token) {
    bytes.push_back(static_cast<uint8_t>(c));
  }
  return {{"token", ReplaceInvalidUtf8(logprob.token)},
          {"logprob", OpenAiLogprob(logprob.logprob)},
          {"bytes", std::move(bytes)}};
}

void AddChatLogprobs(const std::vector<LogprobEntry>& entries, OrderedJson* list) {
  for (const LogprobEntry& entry : entries) {
    OrderedJson body = NamedLogprobBody(entry.chosen);
    OrderedJson& top = body["top_logprobs"] = OrderedJson::array();
    for (const NamedLogprob& other : entry.top) {
      top.push_back(NamedLogprobBody(other));
    }
    list->push_back(std::move(body));
  }
}

OrderedJson ChatLogprobsBody(OrderedJson list) {
  return {{"content", std::move(list)}, {"refusal", nullptr}};
}

std::string_view ChatFinishReason(AnswerFinish finish, bool of_old) {
  return of_old && finish == AnswerFinish::kToolCalls ? "function_call"
                                                      : OpenAiFinishReason(finish);
}

OrderedJson FunctionBody(const ToolCall& call) {
  return {{"name", call.name}, {"arguments", call.arguments}};
}

OrderedJson MessageBody(ChatChoice choice, bool of_old) {
  OrderedJson body = {{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}};
  if (!choice.content.empty() || choice.calls.empty()) {
    body["content"] = std::move(choice.content);
  }
  if (!choice.reasoning.empty()) {
    body["reasoning_content"] = std::move(choice.reasoning);
  }
  if (of_old && !choice.calls.empty()) {
    body["function_call"] = FunctionBody(choice.calls.front());
    return body;
  }
  for (const ToolCall& call : choice.calls) {
    body["tool_calls"].push_back(
        {{"id", call.id}, {"type", "function"}, {"function", FunctionBody(call)}});
  }
  return body;
}

class WholeChat final : public AnswerSink {
 public:
  WholeChat(std::shared_ptr<HttpExchange> exchange, OpenAiHead head,
            const OpenAiChatRequest& request)
      : exchange_(std::move(exchange)),
        head_(std::move(head)),
        of_old_(request.of_old),
        wants_logprobs_(request.generation.top_logprobs.has_value()),
        choices_(static_cast<size_t>(request.generation.num_choices)) {}

  void OnStart(int64_t /*prompt_tokens*/) override {}

  void OnPiece(const AnswerPiece& piece) override {
    ChatChoice& choice = choices_[static_cast<size_t>(piece.choice)];
    for (const CompletionEvent& event : piece.events) {
      AddEvent(event, piece.choice, &choice);
    }
    AddChatLogprobs(piece.logprobs, &choice.logprobs);
  }

  void OnChoiceEnd(int64_t choice, const AnswerEnd& end) override {
    choices_[static_cast<size_t>(choice)].finish = end.finish;
    fault_ = fault_ ? std::move(fault_) : FaultOfFinish(end.finish);
  }

  void OnEnd(const AnswerUsage& usage) override {
    if (fault_) {
      exchange_->Respond(ErrorResponse(Dialect::kOpenAi, *fault_));
      return;
    }
    OrderedJson body = OpenAiHeadBody(head_, "chat.completion");
    OrderedJson& list = body["choices"] = OrderedJson::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      list.push_back(ChoiceBody(i));
    }
    body["usage"] = OpenAiUsageBody(usage);
    exchange_->Respond({.body = DumpJson(body)});
  }

 private:
  void AddEvent(const CompletionEvent& event, int64_t index, ChatChoice* choice) const {
    switch (event.kind) {
      case CompletionEvent::Kind::kReasoning:
        choice->reasoning += event.text;
        break;
      case CompletionEvent::Kind::kContent:
        choice->content += event.text;
        break;
      case CompletionEvent::Kind::kCallStart:
        choice->calls.push_back(
            {.id = CallId(head_.id, index, event.call), .name = event.text, .arguments = {}});
        break;
      case CompletionEvent::Kind::kCallArguments:
        choice->calls.back().arguments += event.text;
        break;
      case CompletionEvent::Kind::kCallEnd:
        break;
    }
  }

  OrderedJson ChoiceBody(size_t index) {
    ChatChoice& choice = choices_[index];
    const std::string_view reason = ChatFinishReason(choice.finish, of_old_);
    OrderedJson logprobs =
        wants_logprobs_ ? ChatLogprobsBody(std::move(choice.logprobs)) : OrderedJson();
    return {{"index", index},
            {"message", MessageBody(std::move(choice), of_old_)},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", reason}};
  }

  const std::shared_ptr<HttpExchange> exchange_;
  const OpenAiHead head_;
  const bool of_old_;
  const bool wants_logprobs_;
  std::vector<ChatChoice> choices_;
  std::optional<ApiError> fault_;
};

class StreamedChat final : public AnswerSink {
 public:
  StreamedChat(std::shared_ptr<HttpExchange> exchange, OpenAiHead head,
               const OpenAiChatRequest& request)
      : stream_(std::move(exchange), head, "chat.completion.chunk", request.stream),
        id_(std::move(head.id)),
        of_old_(request.of_old),
        return_progress_(request.return_progress),
        choices_(static_cast<size_t>(request.generation.num_choices)) {}

  void OnStart(int64_t prompt_tokens) override {
    prompt_tokens_ = prompt_tokens;
    stream_.CountPrompt(prompt_tokens);
    stream_.Begin();
  }

  void OnPrompt(int64_t done, int64_t cached) override {
    if (return_progress_) {
      stream_.WriteMember("prompt_progress",
                          {{"total", prompt_tokens_}, {"cache", cached}, {"processed", done}});
    }
  }

  void OnPiece(const AnswerPiece& piece) override {
    stream_.CountCompletion(piece.tokens);
    BeginChoice(piece.choice);
    AddChatLogprobs(piece.logprobs, &choices_[static_cast<size_t>(piece.choice)].logprobs);
    for (const CompletionEvent& event : piece.events) {
      if (event.kind != CompletionEvent::Kind::kCallEnd) {
        WriteDelta(piece.choice, DeltaOf(event, piece.choice), nullptr);
      }
    }
  }

  void OnChoiceEnd(int64_t choice, const AnswerEnd& end) override {
    if (std::optional<ApiError> fault = FaultOfFinish(end.finish)) {
      fault_ = fault_ ? std::move(fault_) : std::move(fault);
      return;
    }
    BeginChoice(choice);
    WriteDelta(choice, OrderedJson::object(), ChatFinishReason(end.finish, of_old_));
  }

  void OnEnd(const AnswerUsage& usage) override { stream_.End(usage, fault_); }

 private:
  struct Choice {
    bool has_begun = false;
    OrderedJson logprobs = OrderedJson::array();  // not sent yet
  };

  void BeginChoice(int64_t choice) {
    if (!std::exchange(choices_[static_cast<size_t>(choice)].has_begun, true)) {
      WriteDelta(choice, {{"role", "assistant"}, {"content", ""}}, nullptr);
    }
  }

  OrderedJson DeltaOf(const CompletionEvent& event, int64_t choice) const {
    switch (event.kind) {
      case CompletionEvent::Kind::kReasoning:
        return {{"reasoning_content", event.text}};
      case CompletionEvent::Kind::kContent:
        return {{"content", event.text}};
      case CompletionEvent::Kind::kCallStart:
        return CallDelta({{"index", event.call},
                          {"id", CallId(id_, choice, event.call)},
                          {"type", "function"},
                          {"function", {{"name", event.text}, {"arguments", ""}}}});
      default:
        return CallDelta({{"index", event.call}, {"function", {{"arguments", event.text}}}});
    }
  }

  OrderedJson CallDelta(OrderedJson call) const {
    if (of_old_) {
      return {{"function_call", std::move(call["function"])}};
    }
    OrderedJson delta;
    delta["tool_calls"].push_back(std::move(call));
    return delta;
  }

  void WriteDelta(int64_t choice, OrderedJson delta, OrderedJson finish_reason) {
    OrderedJson& untold = choices_[static_cast<size_t>(choice)].logprobs;
    OrderedJson logprobs;
    if (!untold.empty()) {
      logprobs = ChatLogprobsBody(std::exchange(untold, OrderedJson::array()));
    }
    stream_.WriteChoice({{"index", choice},
                         {"delta", std::move(delta)},
                         {"logprobs", std::move(logprobs)},
                         {"finish_reason", std::move(finish_reason)}});
  }

  OpenAiStream stream_;
  const std::string id_;
  const bool of_old_;
  const bool return_progress_;
  std::vector<Choice> choices_;
  int64_t prompt_tokens_ = 0;
  std::optional<ApiError> fault_;
};

}  // namespace

std::shared_ptr<AnswerSink> NewOpenAiChatSink(std::shared_ptr<HttpExchange> exchange,
                                              OpenAiHead head, const OpenAiChatRequest& request) {
  if (request.stream.stream) {
    return std::make_shared<StreamedChat>(std::move(exchange), std::move(head), request);
  }
  return std::make_shared<WholeChat>(std::move(exchange), std::move(head), request);
}

}  // namespace cachalot
