// What a request's format, tools and thinking mean for the tokens of its answer.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "chat/message.h"
#include "grammar/answer_constraint.h"
#include "grammar/matcher.h"
#include "grammar/vocabulary.h"
#include "server/generation_request.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

// From any thread. Keeps the grammars of the last schemas.
class Constraints {
 public:
  // kInvalidArgument where the tokenizer lacks the tokens of thinking and calls.
  static Result<Constraints> New(const Tokenizer& tokenizer, const SamplingParams& defaults,
                                 int64_t vocab_size);

  // Of each answer to the request; nullopt: any token may come.
  Result<std::optional<AnswerRules>> RulesOf(const GenerationRequest& request, ThinkingMode mode);
  std::unique_ptr<TokenConstraint> NewConstraint(const AnswerRules& rules) const;
  int32_t think_close() const { return think_close_; }

 private:
  using Grammars = std::list<std::pair<std::string, std::shared_ptr<CompiledGrammar>>>;

  Result<std::shared_ptr<CompiledGrammar>> GrammarOf(const GenerationRequest& request);

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  int32_t think_close_ = -1;
  int32_t dsml_ = -1;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  Grammars grammars_;  // by what they were made of, the last used first
};

}  // namespace cachalot
