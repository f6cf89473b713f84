// AnswerCollector: the answers to one request of a file, choice by choice, until the last has ended.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cli/generate_request.h"
#include "cli/generate_result.h"
#include "engine/request.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

class AnswerCollector : public std::enable_shared_from_this<AnswerCollector> {
 public:
  using Sink = std::function<void(GenerateResult result)>;

  // `sink` is called once, on the thread of the last end. tokenizer: null for answers without text.
  AnswerCollector(const GenerateRequest& request, std::shared_ptr<const Tokenizer> tokenizer,
                  Sink sink);

  // Hears one choice, and keeps the collector.
  std::unique_ptr<RequestListener> NewListener(int64_t choice, std::span<const int32_t> prompt);
  // The choices from this one on end with this error; nobody was told of them.
  void RefuseFrom(int64_t choice, const std::string& error);

 private:
  class Listener;
  void Finish(size_t choice, GenerateChoice answer, const RequestUsage& usage);

  const std::vector<std::string> stop_;
  const bool echo_;
  const bool with_logprobs_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const Sink sink_;

  std::mutex mutex_;
  GenerateResult result_;
  size_t ended_ = 0;
};

}  // namespace cachalot
