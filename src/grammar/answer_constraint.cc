#include "grammar/answer_constraint.h"

#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

void SetBit(std::vector<uint64_t>& mask, int32_t id, bool value) {
  const uint64_t bit = uint64_t{1} << (id % 64);
  uint64_t& word = mask[static_cast<size_t>(id) / 64];
  word = value ? word | bit : word & ~bit;
}

}  // namespace

AnswerConstraint::AnswerConstraint(std::shared_ptr<const GrammarVocabulary> vocabulary,
                                   AnswerRules rules)
    : rules_(std::move(rules)), is_thinking_(rules_.begins_with_thinking) {
  CACHALOT_CHECK(
      !is_thinking_ || (rules_.think_close >= 0 && rules_.think_close < vocabulary->size()),
      "</think> is token {} of {}", rules_.think_close, vocabulary->size());
  if (rules_.grammar) {
    grammar_.emplace(rules_.grammar);
  }
  if (is_thinking_ && rules_.grammar) {
    all_but_stops_.assign(vocabulary->num_mask_words(), ~uint64_t{0});
    all_but_stops_.back() >>= 63 - (vocabulary->size() - 1) % 64;
    for (const int32_t id : vocabulary->stop_ids()) {
      SetBit(all_but_stops_, id, false);
    }
  }
  if (is_thinking_ && rules_.thinking_budget) {
    close_alone_.assign(vocabulary->num_mask_words(), 0);
    SetBit(close_alone_, rules_.think_close, true);
  }
}

std::span<const uint64_t> AnswerConstraint::Allowed() {
  if (is_thinking_) {
    const bool is_used_up = rules_.thinking_budget && num_thoughts_ >= *rules_.thinking_budget;
    return is_used_up ? close_alone_ : all_but_stops_;
  }
  return grammar_ ? grammar_->Allowed() : std::span<const uint64_t>();
}

bool AnswerConstraint::Accept(int32_t id) {
  if (is_thinking_) {
    is_thinking_ = id != rules_.think_close;
    ++num_thoughts_;
    return true;
  }
  return !grammar_ || grammar_->Accept(id);
}

}  // namespace cachalot
