#include "server/openai_completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "server/format_fields.h"
#include "server/sampling_fields.h"

namespace cachalot {
namespace {

constexpr const char* kCompletionsLengthNames[] = {"max_tokens", "max_completion_tokens"};
constexpr int64_t kDefaultMaxTokens = 16;

using PromptInput = decltype(GenerationRequest::input);

Result<PromptInput> ReadPrompt(const JsonFields& fields, const std::string& name,
                               const OrderedJson& value, int64_t vocab_size) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (!value.is_array() || value.empty()) {
    return fields.Wrong(name, value, "text or a list of token ids");
  }
  CACHALOT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, TokenIdsOf(fields, name, value, vocab_size));
  return ids;
}

Result<std::vector<PromptInput>> ReadPrompts(const JsonFields& fields, int64_t vocab_size) {
  const OrderedJson* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    return fields.Fault("prompt is missing, expected text, token ids or a list of such", "prompt");
  }
  std::vector<PromptInput> prompts;
  const bool is_list = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!is_list) {
    CACHALOT_ASSIGN_OR_RETURN(prompts.emplace_back(),
                              ReadPrompt(fields, "prompt", *prompt, vocab_size));
    return prompts;
  }
  if (prompt->size() > kMaxPrompts) {
    return fields.Fault(
        fmt::format("prompt has {} prompts, expected at most {}", prompt->size(), kMaxPrompts),
        "prompt");
  }
  for (size_t i = 0; i < prompt->size(); ++i) {
    CACHALOT_ASSIGN_OR_RETURN(
        prompts.emplace_back(),
        ReadPrompt(fields, fmt::format("prompt[{}]", i), (*prompt)[i], vocab_size));
  }
  return prompts;
}

Status RefuseWhatIsNotDone(const JsonFields& fields, int64_t num_choices) {
  if (const OrderedJson* suffix = fields.Find("suffix");
      suffix != nullptr && *suffix != OrderedJson("")) {
    return fields.Wrong("suffix", *suffix, "none: this model does not insert");
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::optional<int64_t> best_of,
                            fields.Integer("best_of", 1, kMaxChoices));
  if (best_of && *best_of != 1 && *best_of != num_choices) {
    return fields.Wrong("best_of", OrderedJson(*best_of), "1 or the number of choices, n");
  }
  return {};
}

std::string TextOfToken(const std::string& token) {
  if (!FindInvalidUtf8(token)) {
    return token;
  }
  std::string text = "bytes:";
  for (const char c : token) {
    text += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return text;
}

int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text,
                               [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

// The chosen token is one of them.
OrderedJson TopLogprobsBody(const LogprobEntry& entry) {
  OrderedJson body = OrderedJson::object();
  for (const NamedLogprob& top : entry.top) {
    body.emplace(TextOfToken(top.token), OpenAiLogprob(top.logprob));
  }
  body.emplace(TextOfToken(entry.chosen.token), OpenAiLogprob(entry.chosen.logprob));
  return body;
}

}  // namespace

Result<OpenAiCompletionsRequest> ReadOpenAiCompletionsRequest(const JsonFields& fields,
                                                              const RequestDefaults& defaults) {
  CACHALOT_ASSIGN_OR_RETURN(std::vector<PromptInput> prompts,
                            ReadPrompts(fields, defaults.vocab_size));
  GenerationRequest generation;
  generation.sampling = defaults.sampling;
  generation.max_new_tokens = kDefaultMaxTokens;
  CACHALOT_RETURN_IF_ERROR(ReadSampling(fields, defaults.vocab_size, &generation.sampling));
  CACHALOT_RETURN_IF_ERROR(ReadLengths(fields, kCompletionsLengthNames, &generation));
  CACHALOT_RETURN_IF_ERROR(ReadStop(fields, "stop", &generation.stop));
  CACHALOT_RETURN_IF_ERROR(ReadScheduling(fields, &generation));
  CACHALOT_RETURN_IF_ERROR(ReadLogprobs(fields, &generation.top_logprobs));
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("echo"), &generation.echo));
  CACHALOT_RETURN_IF_ERROR(RefuseWhatIsNotDone(fields, generation.num_choices));
  CACHALOT_ASSIGN_OR_RETURN(FormatFields format, ReadResponseFormat(fields, "response_format"));
  generation.format = std::move(format.format);

  OpenAiCompletionsRequest request;
  CACHALOT_ASSIGN_OR_RETURN(request.stream, ReadOpenAiStreamFields(fields));
  for (PromptInput& prompt : prompts) {
    request.prompts.push_back(generation);
    request.prompts.back().input = std::move(prompt);
  }
  return request;
}

void OpenAiTextLogprobs::Add(const std::vector<LogprobEntry>& entries) {
  for (const LogprobEntry& entry : entries) {
    const bool has_number = !std::isnan(entry.chosen.logprob);
    tokens_.push_back(TextOfToken(entry.chosen.token));
    token_logprobs_.push_back(has_number ? OrderedJson(OpenAiLogprob(entry.chosen.logprob))
                                         : OrderedJson());
    top_logprobs_.push_back(has_number ? TopLogprobsBody(entry) : OrderedJson());
    text_offset_.push_back(offset_);
    offset_ += CountCharacters(text_.Push(entry.chosen.token));
  }
}

OrderedJson OpenAiTextLogprobs::Take() {
  const OrderedJson none = OrderedJson::array();
  return {{"tokens", std::exchange(tokens_, none)},
          {"token_logprobs", std::exchange(token_logprobs_, none)},
          {"top_logprobs", std::exchange(top_logprobs_, none)},
          {"text_offset", std::exchange(text_offset_, none)}};
}

class OpenAiCompletionsAnswer::PromptSink final : public AnswerSink {
 public:
  PromptSink(std::shared_ptr<OpenAiCompletionsAnswer> answer, int64_t first_choice)
      : answer_(std::move(answer)), first_choice_(first_choice) {}

  void OnStart(int64_t prompt_tokens) override { answer_->Start(prompt_tokens); }
  void OnPiece(const AnswerPiece& piece) override {
    answer_->AddPiece(first_choice_ + piece.choice, piece);
  }
  void OnChoiceEnd(int64_t choice, const AnswerEnd& end) override {
    answer_->EndChoice(first_choice_ + choice, end);
  }
  void OnEnd(const AnswerUsage& usage) override { answer_->EndPrompt(usage); }

 private:
  const std::shared_ptr<OpenAiCompletionsAnswer> answer_;
  const int64_t first_choice_;
};

OpenAiCompletionsAnswer::OpenAiCompletionsAnswer(std::shared_ptr<HttpExchange> exchange,
                                                 OpenAiHead head,
                                                 const OpenAiCompletionsRequest& request)
    : exchange_(std::move(exchange)),
      head_(std::move(head)),
      choices_per_prompt_(request.prompts.front().num_choices),
      wants_logprobs_(request.prompts.front().top_logprobs.has_value()),
      choices_(request.prompts.size() * static_cast<size_t>(choices_per_prompt_)),
      prompts_left_(std::ssize(request.prompts)) {
  if (request.stream.stream) {
    stream_.emplace(exchange_, head_, "text_completion", request.stream);
  }
}

std::shared_ptr<AnswerSink> OpenAiCompletionsAnswer::SinkOf(
    std::shared_ptr<OpenAiCompletionsAnswer> answer, int64_t prompt) {
  const int64_t first_choice = prompt * answer->choices_per_prompt_;
  return std::make_shared<PromptSink>(std::move(answer), first_choice);
}

void OpenAiCompletionsAnswer::Fail(const ApiError& error) {
  fault_ = error;
  Complete();
}

void OpenAiCompletionsAnswer::Start(int64_t prompt_tokens) {
  if (!stream_ || is_complete_) {
    return;
  }
  stream_->CountPrompt(prompt_tokens);
  if (!std::exchange(has_started_, true)) {
    stream_->Begin();
  }
}

void OpenAiCompletionsAnswer::AddPiece(int64_t choice, const AnswerPiece& piece) {
  if (is_complete_) {
    return;
  }
  Choice& target = choices_[static_cast<size_t>(choice)];
  target.logprobs.Add(piece.logprobs);
  std::string text;
  for (const CompletionEvent& event : piece.events) {
    text += event.text;
  }
  if (!stream_) {
    target.text += text;
    return;
  }
  stream_->CountCompletion(piece.tokens);
  if (!text.empty()) {
    WriteChunk(choice, std::move(text), nullptr);
  }
}

void OpenAiCompletionsAnswer::EndChoice(int64_t choice, const AnswerEnd& end) {
  if (is_complete_) {
    return;
  }
  choices_[static_cast<size_t>(choice)].finish = end.finish;
  const std::optional<ApiError> fault = FaultOfFinish(end.finish);
  if (stream_ && !fault) {
    WriteChunk(choice, "", OpenAiFinishReason(end.finish));
  }
  if (!fault_) {
    fault_ = fault;
  }
}

void OpenAiCompletionsAnswer::EndPrompt(const AnswerUsage& usage) {
  usage_.prompt_tokens += usage.prompt_tokens;
  usage_.cached_tokens += usage.cached_tokens;
  usage_.completion_tokens += usage.completion_tokens;
  usage_.reasoning_tokens += usage.reasoning_tokens;
  if (--prompts_left_ == 0) {
    Complete();
  }
}

void OpenAiCompletionsAnswer::Complete() {
  if (std::exchange(is_complete_, true)) {
    return;
  }
  if (has_started_) {
    stream_->End(usage_, fault_);
  } else if (fault_) {
    exchange_->Respond(ErrorResponse(Dialect::kOpenAi, *fault_));
  } else {
    Respond();
  }
}

void OpenAiCompletionsAnswer::Respond() {
  OrderedJson body = OpenAiHeadBody(head_, "text_completion");
  OrderedJson& list = body["choices"] = OrderedJson::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    OrderedJson logprobs = wants_logprobs_ ? choice.logprobs.Take() : OrderedJson();
    list.push_back({{"text", std::move(choice.text)},
                    {"index", i},
                    {"logprobs", std::move(logprobs)},
                    {"finish_reason", OpenAiFinishReason(choice.finish)}});
  }
  body["usage"] = OpenAiUsageBody(usage_);
  exchange_->Respond({.body = DumpJson(body)});
}

void OpenAiCompletionsAnswer::WriteChunk(int64_t choice, std::string text,
                                         OrderedJson finish_reason) {
  OpenAiTextLogprobs& untold = choices_[static_cast<size_t>(choice)].logprobs;
  stream_->WriteChoice({{"text", std::move(text)},
                        {"index", choice},
                        {"logprobs", untold.empty() ? OrderedJson() : untold.Take()},
                        {"finish_reason", std::move(finish_reason)}});
}

}  // namespace cachalot
