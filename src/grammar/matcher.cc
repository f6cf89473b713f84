#include "grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "grammar/configurations.h"

namespace cachalot {

CompiledGrammar::CompiledGrammar(Grammar grammar,
                                 std::shared_ptr<const GrammarVocabulary> vocabulary)
    : grammar_(std::make_shared<const Grammar>(std::move(grammar))),
      vocabulary_(std::move(vocabulary)),
      caches_(std::make_shared<Configurations>(grammar_, vocabulary_)) {}

Result<std::shared_ptr<CompiledGrammar>> CompiledGrammar::Make(
    Grammar grammar, std::shared_ptr<const GrammarVocabulary> vocabulary) {
  for (size_t byte = 0; byte < 256; ++byte) {
    if (grammar.used_bytes[byte] && !vocabulary->has_byte_token(static_cast<uint8_t>(byte))) {
      return MakeError(StatusCode::kInvalidArgument,
                       "the vocabulary has no token for the byte 0x{:02x} of the grammar", byte);
    }
  }
  for (const int32_t id : grammar.used_tokens) {
    if (id < 0 || id >= vocabulary->size() || !vocabulary->bytes(id).empty()) {
      return MakeError(StatusCode::kInvalidArgument,
                       "token {} of the grammar is no special token of the vocabulary", id);
    }
  }
  return std::shared_ptr<CompiledGrammar>(
      new CompiledGrammar(std::move(grammar), std::move(vocabulary)));
}

std::shared_ptr<Configurations> CompiledGrammar::caches() {
  const std::lock_guard lock(mutex_);
  return caches_;
}

std::shared_ptr<Configurations> CompiledGrammar::CachesAfter(
    const std::shared_ptr<Configurations>& old) {
  const std::lock_guard lock(mutex_);
  if (caches_ == old) {
    caches_ = std::make_shared<Configurations>(grammar_, vocabulary_);
  }
  return caches_;
}

GrammarConstraint::GrammarConstraint(std::shared_ptr<CompiledGrammar> grammar)
    : grammar_(std::move(grammar)), caches_(grammar_->caches()), configuration_(caches_->Start()) {}

std::span<const uint64_t> GrammarConstraint::Allowed() {
  if (caches_->is_full()) {
    const auto next = grammar_->CachesAfter(caches_);
    configuration_ = next->Import(*caches_, configuration_);
    caches_ = next;
  }
  mask_ = caches_->MaskOf(configuration_);
  return mask_ ? std::span<const uint64_t>(*mask_) : std::span<const uint64_t>();
}

bool GrammarConstraint::Accept(int32_t id) {
  const int32_t next = caches_->Advance(configuration_, id);
  if (next == Configurations::kDead) {
    // A stop id of the vocabulary that is none of the request's ends the text all the same.
    const bool ends =
        is_complete() && std::ranges::count(grammar_->vocabulary().stop_ids(), id) > 0;
    CACHALOT_CHECK(ends, "token {} came and was not allowed", id);
    return false;
  }
  configuration_ = next;
  return !caches_->IsOver(configuration_);
}

bool GrammarConstraint::is_complete() const { return caches_->IsComplete(configuration_); }

}  // namespace cachalot
