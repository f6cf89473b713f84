#include "server/responses_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "chat/python_json.h"
#include "io/utf8.h"
#include "server/openai_answer.h"
#include "server/responses_input.h"

namespace cachalot {
namespace {

constexpr std::string_view kContextLengthExceeded = "context_length_exceeded";

OrderedJson NamedLogprobJson(const NamedLogprob& named) {
  OrderedJson bytes = OrderedJson::array();
  for (const char byte : named.token) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return {{"token", ReplaceInvalidUtf8(named.token)},
          {"logprob", OpenAiLogprob(named.logprob)},
          {"bytes", std::move(bytes)}};
}

OrderedJson LogprobJson(const LogprobEntry& entry) {
  OrderedJson json = NamedLogprobJson(entry.chosen);
  OrderedJson& top = json["top_logprobs"] = OrderedJson::array();
  for (const NamedLogprob& named : entry.top) {
    top.push_back(NamedLogprobJson(named));
  }
  return json;
}

// The action of a local_shell_call; what is no such thing in the arguments is left out.
OrderedJson ShellAction(const std::string& arguments) {
  OrderedJson action = {
      {"type", "exec"}, {"command", OrderedJson::array()}, {"env", OrderedJson::object()}};
  const Result<OrderedJson> object = ParsePythonJson(arguments, "arguments");
  if (!object || !object->is_object()) {
    return action;
  }
  for (const auto& [key, value] : object->items()) {
    const bool is_texts =
        value.is_structured() &&
        std::all_of(value.begin(), value.end(), [](const OrderedJson& v) { return v.is_string(); });
    if (key == "command" && value.is_string()) {
      action[key] = OrderedJson::array({"bash", "-lc", value});
    } else if ((key == "command" && value.is_array() && is_texts) ||
               (key == "env" && value.is_object() && is_texts) ||
               (key == "timeout_ms" && value.is_number_integer()) ||
               ((key == "working_directory" || key == "user") && value.is_string())) {
      action[key] = value;
    }
  }
  return action;
}

OrderedJson UsageJson(const AnswerUsage& usage) {
  return {
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

// How events of an item are called.
struct ResponsesSink::Names {
  const char* part;   // with ".added" and ".done"; null: none
  const char* index;  // of the part
  const char* text;   // with ".delta" and ".done"; null: none
  const char* whole;  // the member of the latter that holds it all
};

ResponsesSink::ResponsesSink(std::shared_ptr<HttpExchange> exchange, ResponsesRequest request,
                             ResponsesHead head)
    : exchange_(std::move(exchange)), request_(std::move(request)), head_(std::move(head)) {}

void ResponsesSink::OnStart(int64_t /*prompt_tokens*/) {
  if (!request_.stream) {
    return;
  }
  HttpStream stream;
  stream.life_sign = kResponsesLifeSign;
  exchange_->BeginStream(std::move(stream));
  const OrderedJson response = ResponseJson("in_progress", nullptr);
  Tell("response.created", {{"response", response}});
  Tell("response.in_progress", {{"response", response}});
}

void ResponsesSink::OnPiece(const AnswerPiece& piece) {
  for (const LogprobEntry& entry : piece.logprobs) {
    logprobs_.push_back(LogprobJson(entry));
  }
  for (const CompletionEvent& event : piece.events) {
    OnEvent(event);
  }
  if (item_ && item_->kind != Kind::kMessage) {
    logprobs_.clear();
  }
}

void ResponsesSink::OnEvent(const CompletionEvent& event) {
  switch (event.kind) {
    case CompletionEvent::Kind::kReasoning:
    case CompletionEvent::Kind::kContent: {
      const bool is_content = event.kind == CompletionEvent::Kind::kContent;
      const Kind kind = is_content ? Kind::kMessage : Kind::kReasoning;
      if (!item_ || item_->kind != kind) {
        Close(/*complete=*/true);
        Open(kind);
      }
      Grow(event.text);
      return;
    }
    case CompletionEvent::Kind::kCallStart: {
      Close(/*complete=*/true);
      const auto known = request_.tools.find(event.text);
      ResponsesTool tool;
      tool.name = event.text;
      tool = known == request_.tools.end() ? tool : known->second;
      using Tool = ResponsesTool::Kind;
      Open(tool.kind == Tool::kCustom       ? Kind::kCustomCall
           : tool.kind == Tool::kLocalShell ? Kind::kShellCall
                                            : Kind::kFunctionCall,
           std::move(tool), event.call);
      return;
    }
    case CompletionEvent::Kind::kCallArguments:
      Grow(item_->kind == Kind::kCustomCall ? item_->input.Push(event.text) : event.text);
      return;
    case CompletionEvent::Kind::kCallEnd:
      Close(/*complete=*/true);
      return;
  }
}

void ResponsesSink::OnChoiceEnd(int64_t /*choice*/, const AnswerEnd& end) {
  finish_ = end.finish;
  Close(/*complete=*/end.finish != AnswerFinish::kLength && !FaultOfFinish(end.finish));
}

void ResponsesSink::OnEnd(const AnswerUsage& usage) {
  const std::optional<ApiError> fault = FaultOfFinish(finish_);
  if (fault && !request_.stream) {
    exchange_->Respond(ErrorResponse(Dialect::kOpenAi, *fault));
    return;
  }
  if (fault) {
    EndStream("failed", FailedJson("server_error", fault->message, &usage));
    return;
  }
  const bool is_cut = finish_ == AnswerFinish::kLength;
  const char* status = is_cut ? "incomplete" : "completed";
  OrderedJson response = ResponseJson(status, &usage);
  if (is_cut) {
    response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  if (request_.stream) {
    EndStream(status, std::move(response));
    return;
  }
  exchange_->Respond({200, DumpPythonJson(response)});
}

void ResponsesSink::Refuse(const ApiError& error) {
  if (!request_.stream || error.code != kContextLengthExceeded) {
    exchange_->Respond(ErrorResponse(Dialect::kOpenAi, error));
    return;
  }
  OnStart(0);
  EndStream("failed", FailedJson(error.code, error.message, nullptr));
}

void ResponsesSink::EndStream(std::string_view status, OrderedJson response) {
  Tell(fmt::format("response.{}", status), {{"response", std::move(response)}});
  exchange_->Finish();
}

void ResponsesSink::Open(Kind kind, ResponsesTool tool, int64_t call) {
  static constexpr const char* kIdPrefixes[] = {"rs", "msg", "fc", "ctc", "lsh"};
  item_.emplace();
  item_->kind = kind;
  const size_t digits = head_.id.find('_') + 1;  // 0 where there is none
  item_->id = fmt::format("{}_{}_{}", kIdPrefixes[static_cast<size_t>(kind)],
                          std::string_view(head_.id).substr(digits), output_.size());
  item_->tool = std::move(tool);
  if (kind != Kind::kReasoning && kind != Kind::kMessage) {
    item_->call_id = head_.call_ids(call);
  }
  const bool has_part = NamesOf(kind).part != nullptr;
  Tell("response.output_item.added",
       {{"output_index", output_.size()}, {"item", ItemJson("in_progress", /*is_new=*/true)}});
  if (has_part) {
    TellOfItem(fmt::format("{}.added", NamesOf(kind).part), {{"part", PartJson()}});
  }
}

void ResponsesSink::Grow(std::string_view text) {
  if (text.empty()) {
    return;
  }
  item_->text += text;
  const Names names = NamesOf(item_->kind);
  OrderedJson data = {{"delta", text}};
  if (item_->kind == Kind::kMessage) {
    data["logprobs"] = std::exchange(logprobs_, OrderedJson::array());
    item_->logprobs.insert(item_->logprobs.end(), data["logprobs"].begin(), data["logprobs"].end());
  }
  if (names.text != nullptr) {
    TellOfItem(fmt::format("{}.delta", names.text), std::move(data));
  }
}

void ResponsesSink::Close(bool complete) {
  if (!item_) {
    return;
  }
  if (item_->kind == Kind::kCustomCall) {
    Grow(item_->input.Finish());
  }
  const OrderedJson item = ItemJson(complete ? "completed" : "incomplete", /*is_new=*/false);
  if (!FaultOfFinish(finish_)) {
    const Names names = NamesOf(item_->kind);
    if (names.text != nullptr) {
      OrderedJson data = {{names.whole, item_->text}};
      if (item_->kind == Kind::kMessage) {
        data["logprobs"] = item_->logprobs;
      } else if (item_->kind == Kind::kFunctionCall) {
        data["name"] = item_->tool.name;
      }
      TellOfItem(fmt::format("{}.done", names.text), std::move(data));
    }
    if (names.part != nullptr) {
      TellOfItem(fmt::format("{}.done", names.part), {{"part", PartJson()}});
    }
    Tell("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
  }
  output_.push_back(item);
  item_.reset();
}

ResponsesSink::Names ResponsesSink::NamesOf(Kind kind) const {
  switch (kind) {
    case Kind::kReasoning:
      if (request_.shows_summary) {
        return {"response.reasoning_summary_part", "summary_index",
                "response.reasoning_summary_text", "text"};
      }
      return {"response.content_part", "content_index", "response.reasoning_text", "text"};
    case Kind::kMessage:
      return {"response.content_part", "content_index", "response.output_text", "text"};
    case Kind::kFunctionCall:
      return {nullptr, nullptr, "response.function_call_arguments", "arguments"};
    case Kind::kCustomCall:
      return {nullptr, nullptr, "response.custom_tool_call_input", "input"};
    case Kind::kShellCall:
      break;
  }
  return {};
}

OrderedJson ResponsesSink::PartJson() const {
  if (item_->kind == Kind::kReasoning) {
    return {{"type", request_.shows_summary ? "summary_text" : "reasoning_text"},
            {"text", item_->text}};
  }
  return {{"type", "output_text"},
          {"annotations", OrderedJson::array()},
          {"logprobs", item_->logprobs},
          {"text", item_->text}};
}

OrderedJson ResponsesSink::ItemJson(std::string_view status, bool is_new) const {
  OrderedJson item = {{"id", item_->id}};
  switch (item_->kind) {
    case Kind::kReasoning:
      item["type"] = "reasoning";
      item["summary"] = OrderedJson::array();
      item[request_.shows_summary ? "summary" : "content"] =
          is_new ? OrderedJson::array() : OrderedJson::array({PartJson()});
      if (request_.seals_reasoning) {
        item["encrypted_content"] = SealReasoning(item_->text);
      }
      return item;
    case Kind::kMessage:
      item["type"] = "message";
      item["status"] = status;
      item["role"] = "assistant";
      item["content"] = is_new ? OrderedJson::array() : OrderedJson::array({PartJson()});
      return item;
    case Kind::kFunctionCall:
    case Kind::kCustomCall: {
      const bool is_custom = item_->kind == Kind::kCustomCall;
      item["type"] = is_custom ? "custom_tool_call" : "function_call";
      item["status"] = status;
      item["call_id"] = item_->call_id;
      item["name"] = item_->tool.name;
      if (!item_->tool.name_space.empty()) {
        item["namespace"] = item_->tool.name_space;
      }
      item[is_custom ? "input" : "arguments"] = item_->text;
      return item;
    }
    case Kind::kShellCall:
      item["type"] = "local_shell_call";
      item["status"] = status;
      item["call_id"] = item_->call_id;
      item["action"] = ShellAction(item_->text);
      return item;
  }
  return item;
}

OrderedJson ResponsesSink::ResponseJson(std::string_view status, const AnswerUsage* usage) const {
  OrderedJson response = {
      {"id", head_.id},
      {"object", "response"},
      {"created_at", head_.created},
      {"status", status},
      {"background", false},
      {"error", nullptr},
      {"incomplete_details", nullptr},
      {"model", head_.model},
      {"output", output_},
      {"usage", usage == nullptr ? OrderedJson() : UsageJson(*usage)},
  };
  response.update(request_.settings);
  return response;
}

OrderedJson ResponsesSink::FailedJson(std::string_view code, const std::string& message,
                                      const AnswerUsage* usage) const {
  OrderedJson response = ResponseJson("failed", usage);
  response["error"] = {{"code", code}, {"message", ReplaceInvalidUtf8(message)}};
  return response;
}

void ResponsesSink::TellOfItem(std::string_view type, OrderedJson data) {
  OrderedJson place = {{"item_id", item_->id}, {"output_index", output_.size()}};
  if (const char* index = NamesOf(item_->kind).index; index != nullptr) {
    place[index] = 0;
  }
  place.update(data);
  Tell(type, std::move(place));
}

void ResponsesSink::Tell(std::string_view type, OrderedJson data) {
  if (!request_.stream) {
    return;
  }
  OrderedJson event = {{"type", type}, {"sequence_number", sequence_number_++}};
  event.update(data);
  exchange_->Write(fmt::format("event: {}\ndata: {}\n\n", type, DumpPythonJson(event)));
}

}  // namespace cachalot
