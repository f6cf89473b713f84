// The constraint of a whole answer: thinking, within a budget or not, then free text or a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "grammar/matcher.h"
#include "sampling/token_constraint.h"

namespace cachalot {

struct AnswerRules {
  // The answer begins with thinking, which the token </think> ends.
  bool begins_with_thinking = false;
  int32_t think_close = -1;  // its id
  // Tokens of thinking, </think> not counted, after which </think> is the only one allowed.
  std::optional<int64_t> thinking_budget;
  // What follows at once; null: any text.
  std::shared_ptr<CompiledGrammar> grammar;
};

// While thinking, any token may come; a stop id only where no grammar is to follow.
class AnswerConstraint final : public TokenConstraint {
 public:
  // think_close is an id of the vocabulary where the answer begins with thinking.
  AnswerConstraint(std::shared_ptr<const GrammarVocabulary> vocabulary, AnswerRules rules);

  std::span<const uint64_t> Allowed() override;
  bool Accept(int32_t id) override;

 private:
  AnswerRules rules_;
  bool is_thinking_;
  int64_t num_thoughts_ = 0;
  std::vector<uint64_t> all_but_stops_;  // of thinking before a grammar
  std::vector<uint64_t> close_alone_;    // of thinking at its budget
  std::optional<GrammarConstraint> grammar_;
};

}  // namespace cachalot
