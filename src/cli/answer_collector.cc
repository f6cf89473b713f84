#include "cli/answer_collector.h"

#include <algorithm>
#include <utility>

#include "chat/stop_strings.h"
#include "tokenizer/incremental_decoder.h"

namespace cachalot {
namespace {

ResultEnd FinishOf(EndReason reason) {
  switch (reason) {
    case EndReason::kStopped:
      return ResultEnd::kStop;
    case EndReason::kLength:
      return ResultEnd::kLength;
    case EndReason::kCancelled:
      return ResultEnd::kCancelled;
    case EndReason::kDeadline:
      return ResultEnd::kDeadline;
    case EndReason::kFailed:
      break;
  }
  return ResultEnd::kError;
}

}  // namespace

class AnswerCollector::Listener final : public RequestListener {
 public:
  Listener(std::shared_ptr<AnswerCollector> collector, size_t choice,
           std::span<const int32_t> prompt)
      : collector_(std::move(collector)), choice_(choice), stops_(collector_->stop_) {
    if (tokenizer() != nullptr) {
      decoder_.emplace(*tokenizer());
      answer_.text.emplace();
    }
    if (collector_->with_logprobs_) {
      answer_.logprobs.emplace();
    }
    if (collector_->echo_) {
      Echo(prompt);
    }
  }

  void OnPromptToken(int64_t /*index*/, const TokenLogprobs& logprobs) override {
    answer_.logprobs->push_back(Named(logprobs));
  }

  bool OnToken(const GeneratedToken& token) override {
    answer_.token_ids.push_back(token.id);
    if (token.logprobs) {
      answer_.logprobs->push_back(Named(*token.logprobs));
    }
    if (!decoder_) {
      return true;
    }
    // The engine samples no id without a token.
    *answer_.text += stops_.Push(decoder_->Push(token.id).value_or(""));
    return !stops_.has_stopped();
  }

  void OnEnd(EndReason reason, const RequestUsage& usage) override {
    if (decoder_ && !stops_.has_stopped()) {
      *answer_.text += stops_.Push(decoder_->Finish());
      *answer_.text += stops_.Flush();
    }
    answer_.finish_reason = FinishOf(reason);
    if (answer_.finish_reason == ResultEnd::kError) {
      answer_.error = "the device failed in one of this request's steps";
    }
    collector_->Finish(choice_, std::move(answer_), usage);
  }

 private:
  const Tokenizer* tokenizer() const { return collector_->tokenizer_.get(); }

  void Echo(std::span<const int32_t> prompt) {
    answer_.token_ids.assign(prompt.begin(), prompt.end());
    if (decoder_) {
      *answer_.text = tokenizer()->Decode(prompt).value_or("");
    }
  }

  NamedLogprob Named(const TokenLogprob& logprob) const {
    NamedLogprob named{.id = logprob.id, .logprob = logprob.logprob, .token = std::nullopt};
    if (tokenizer() != nullptr) {
      named.token = std::string(tokenizer()->TokenBytes(logprob.id).value_or(""));
    }
    return named;
  }
  LogprobEntry Named(const TokenLogprobs& logprobs) const {
    LogprobEntry entry{.chosen = Named(logprobs.chosen), .top = {}};
    std::ranges::transform(logprobs.top, std::back_inserter(entry.top),
                           [&](const TokenLogprob& top) { return Named(top); });
    return entry;
  }

  const std::shared_ptr<AnswerCollector> collector_;
  const size_t choice_;
  GenerateChoice answer_;
  std::optional<IncrementalDecoder> decoder_;
  StopMatcher stops_;
};

AnswerCollector::AnswerCollector(const GenerateRequest& request,
                                 std::shared_ptr<const Tokenizer> tokenizer, Sink sink)
    : stop_(request.stop),
      echo_(request.echo),
      with_logprobs_(request.top_logprobs.has_value()),
      tokenizer_(std::move(tokenizer)),
      sink_(std::move(sink)) {
  result_.id = request.id;
  result_.choices.resize(static_cast<size_t>(request.num_choices));
}

std::unique_ptr<RequestListener> AnswerCollector::NewListener(int64_t choice,
                                                              std::span<const int32_t> prompt) {
  return std::make_unique<Listener>(shared_from_this(), static_cast<size_t>(choice), prompt);
}

void AnswerCollector::RefuseFrom(int64_t choice, const std::string& error) {
  const size_t num_choices = result_.choices.size();
  for (auto i = static_cast<size_t>(choice); i < num_choices; ++i) {
    GenerateChoice refused;
    refused.finish_reason = ResultEnd::kError;
    refused.error = error;
    Finish(i, std::move(refused), {});
  }
}

void AnswerCollector::Finish(size_t choice, GenerateChoice answer, const RequestUsage& usage) {
  std::unique_lock lock(mutex_);
  result_.choices[choice] = std::move(answer);
  if (choice == 0) {  // the others find what it has left
    result_.usage.prompt_tokens = usage.prompt_tokens;
    result_.usage.cached_tokens = usage.cached_tokens;
  }
  result_.usage.completion_tokens += usage.completion_tokens;
  if (++ended_ == result_.choices.size()) {
    lock.unlock();
    sink_(std::move(result_));
  }
}

}  // namespace cachalot
