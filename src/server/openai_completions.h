// OpenAI's text completions: several prompts in one request, of each n choices; choice c of prompt p
// is choice p * n + c of the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/http.h"
#include "io/utf8.h"
#include "server/answer.h"
#include "server/api_error.h"
#include "server/generation_request.h"
#include "server/json_fields.h"
#include "server/openai_answer.h"

namespace cachalot {

inline constexpr size_t kMaxPrompts = 1024;

struct OpenAiCompletionsRequest {
  std::vector<GenerationRequest> prompts;  // at least one; alike but for the input
  OpenAiStreamFields stream;
};

// `prompt` is a text, a list of texts, a list of token ids, or a list of such lists. Where the longest
// answer is not said it has 16 tokens, as OpenAI has it. `suffix` is refused, and so is `best_of`
// other than n.
Result<OpenAiCompletionsRequest> ReadOpenAiCompletionsRequest(const JsonFields& fields,
                                                              const RequestDefaults& defaults);

// The logprobs of a choice in the shape that completions have: parallel lists. An entry without a
// number (NaN: the first token of a prompt) is null. A token that is no text reads "bytes:\xe2\x82".
class OpenAiTextLogprobs {
 public:
  void Add(const std::vector<LogprobEntry>& entries);
  bool empty() const { return tokens_.empty(); }
  // What was added since the last call.
  OrderedJson Take();

 private:
  OrderedJson tokens_ = OrderedJson::array();
  OrderedJson token_logprobs_ = OrderedJson::array();
  OrderedJson top_logprobs_ = OrderedJson::array();
  OrderedJson text_offset_ = OrderedJson::array();  // in characters of the choice's text
  Utf8Stream text_;
  int64_t offset_ = 0;
};

// Answers all prompts of a request, whole or as a stream, and completes the exchange. On the
// exchange's thread.
class OpenAiCompletionsAnswer {
 public:
  OpenAiCompletionsAnswer(std::shared_ptr<HttpExchange> exchange, OpenAiHead head,
                          const OpenAiCompletionsRequest& request);

  // One for each prompt; they keep the answer.
  static std::shared_ptr<AnswerSink> SinkOf(std::shared_ptr<OpenAiCompletionsAnswer> answer,
                                            int64_t prompt);
  // Ends the answer now; what sinks hear afterwards is ignored.
  void Fail(const ApiError& error);

 private:
  class PromptSink;
  struct Choice {
    std::string text;
    OpenAiTextLogprobs logprobs;
    AnswerFinish finish = AnswerFinish::kStop;
  };

  void Start(int64_t prompt_tokens);
  void AddPiece(int64_t choice, const AnswerPiece& piece);
  void EndChoice(int64_t choice, const AnswerEnd& end);
  void EndPrompt(const AnswerUsage& usage);
  void Complete();
  void Respond();
  void WriteChunk(int64_t choice, std::string text, OrderedJson finish_reason);

  const std::shared_ptr<HttpExchange> exchange_;
  const OpenAiHead head_;
  const int64_t choices_per_prompt_;
  const bool wants_logprobs_;
  std::optional<OpenAiStream> stream_;
  std::vector<Choice> choices_;
  int64_t prompts_left_;
  bool has_started_ = false;
  bool is_complete_ = false;
  AnswerUsage usage_;
  std::optional<ApiError> fault_;
};

}  // namespace cachalot
