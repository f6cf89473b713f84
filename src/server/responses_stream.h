// The answer to POST /v1/responses: items, told by events while they grow, or whole at the end. Both
// come of the same steps, so a stream's last event holds what the whole answer would have been.
//
//   response.created, response.in_progress
//     response.output_item.added                                           of each item
//       response.content_part.added, response.reasoning_text.delta … .done, …part.done    reasoning
//       response.reasoning_summary_part.added, …summary_text.delta … .done, …part.done    its summary
//       response.content_part.added, response.output_text.delta … .done, …part.done       message
//       response.function_call_arguments.delta … .done                                    call
//       response.custom_tool_call_input.delta … .done                     call of a custom tool
//     response.output_item.done
//   response.completed, .incomplete (max_output_tokens) or .failed
//
// The summary, where a request asks for one, is the reasoning itself. A call of the local shell has
// no events between its two. Of an answer that failed, the item it broke off in is not told as done,
// lest a client run half a call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/http.h"
#include "io/json.h"
#include "server/answer.h"
#include "server/api_error.h"
#include "server/custom_tool_input.h"
#include "server/responses_request.h"

namespace cachalot {

// A sign of life that is an event of its own: Codex counts the time between events, not bytes, and
// like other clients passes over those it does not know. Without sequence_number, as it may come
// anywhere.
inline constexpr std::string_view kResponsesLifeSign =
    "event: keepalive\ndata: {\"type\": \"keepalive\"}\n\n";

struct ResponsesHead {
  std::string id;  // "resp_…"
  std::string model;
  int64_t created = 0;                                // seconds since 1970
  std::function<std::string(int64_t call)> call_ids;  // of the answer's calls
};

class ResponsesSink final : public AnswerSink {
 public:
  // The request's `generation` is not looked at.
  ResponsesSink(std::shared_ptr<HttpExchange> exchange, ResponsesRequest request,
                ResponsesHead head);

  void OnStart(int64_t prompt_tokens) override;
  void OnPiece(const AnswerPiece& piece) override;
  void OnChoiceEnd(int64_t choice, const AnswerEnd& end) override;
  void OnEnd(const AnswerUsage& usage) override;
  // In place of all these: the generator did not take the request. A stream tells by an event that
  // the context is full, as OpenAI's do: Codex then shortens its conversation, and knows no status of
  // HTTP for that. All else is an error of HTTP.
  void Refuse(const ApiError& error);

 private:
  enum class Kind : uint8_t { kReasoning, kMessage, kFunctionCall, kCustomCall, kShellCall };
  // The item that grows.
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id;
    std::string text;  // reasoning, content, arguments or a custom tool's input
    OrderedJson logprobs = OrderedJson::array();
    ResponsesTool tool;
    std::string call_id;
    CustomToolInput input;
  };

  struct Names;

  void OnEvent(const CompletionEvent& event);
  void Open(Kind kind, ResponsesTool tool = {}, int64_t call = 0);
  void Grow(std::string_view text);
  void Close(bool complete);
  Names NamesOf(Kind kind) const;
  OrderedJson PartJson() const;
  OrderedJson ItemJson(std::string_view status, bool is_new) const;
  OrderedJson ResponseJson(std::string_view status, const AnswerUsage* usage) const;
  OrderedJson FailedJson(std::string_view code, const std::string& message,
                         const AnswerUsage* usage) const;
  // An event with `data` behind its type and number; of the item that grows, with its place.
  void Tell(std::string_view type, OrderedJson data);
  void TellOfItem(std::string_view type, OrderedJson data);
  void EndStream(std::string_view status, OrderedJson response);

  const std::shared_ptr<HttpExchange> exchange_;
  const ResponsesRequest request_;
  const ResponsesHead head_;
  int64_t sequence_number_ = 0;
  OrderedJson output_ = OrderedJson::array();  // items that are complete
  std::optional<Item> item_;
  OrderedJson logprobs_ = OrderedJson::array();  // of tokens whose text is held back
  AnswerFinish finish_ = AnswerFinish::kStop;
};

}  // namespace cachalot
