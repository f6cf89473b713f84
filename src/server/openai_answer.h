// What OpenAI's answers to chats and to text completions have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/http.h"
#include "io/json.h"
#include "server/answer.h"
#include "server/api_error.h"
#include "server/json_fields.h"

namespace cachalot {

struct OpenAiHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
};

struct OpenAiStreamFields {
  bool stream = false;
  bool include_usage = false;     // a last chunk has it
  bool continuous_usage = false;  // so has every chunk
};

// stream and stream_options: {include_usage, continuous_usage_stats}; the options mean nothing
// without a stream.
Result<OpenAiStreamFields> ReadOpenAiStreamFields(const JsonFields& fields);

// The members before `choices`.
OrderedJson OpenAiHeadBody(const OpenAiHead& head, std::string_view object);
OrderedJson OpenAiUsageBody(const AnswerUsage& usage);
// "stop", "length" or "tool_calls"; of an end without a fault.
std::string_view OpenAiFinishReason(AnswerFinish finish);
// Of an end that is none of the model's doing.
std::optional<ApiError> FaultOfFinish(AnswerFinish finish);
// JSON has no infinity: the probability 0 is -9999, as OpenAI has it.
double OpenAiLogprob(float logprob);

// The chunks of one answer, which are all the same but for their choice.
class OpenAiStream {
 public:
  OpenAiStream(std::shared_ptr<HttpExchange> exchange, const OpenAiHead& head,
               std::string_view object, const OpenAiStreamFields& fields);

  void Begin();
  // What the usage of the chunks that follow says, where each has one.
  void CountPrompt(int64_t tokens) { usage_.prompt_tokens += tokens; }
  void CountCompletion(int64_t tokens) { usage_.completion_tokens += tokens; }
  void WriteChoice(const OrderedJson& choice);
  // A chunk without choices.
  void WriteMember(std::string_view name, const OrderedJson& value);
  // The usage where it was asked for, or what went wrong in its place.
  void End(const AnswerUsage& usage, const std::optional<ApiError>& fault);

 private:
  const std::shared_ptr<HttpExchange> exchange_;
  const OpenAiStreamFields fields_;
  const std::string front_;  // up to the choices
  AnswerUsage usage_;
};

}  // namespace cachalot
