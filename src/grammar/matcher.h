// A grammar over a vocabulary: which tokens may come next, of each answer that follows it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/vocabulary.h"
#include "sampling/token_constraint.h"

namespace cachalot {

class Configurations;

// What all answers by one grammar share: masks and transitions as far as they were needed yet,
// within bounds. Any thread may use it at any time.
class CompiledGrammar {
 public:
  // Errors (kInvalidArgument): the grammar needs a byte that no token is, or a token that is none
  // of the vocabulary.
  static Result<std::shared_ptr<CompiledGrammar>> Make(
      Grammar grammar, std::shared_ptr<const GrammarVocabulary> vocabulary);

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  // The present caches.
  std::shared_ptr<Configurations> caches();
  // New ones for those whose `old` are full, the same for all.
  std::shared_ptr<Configurations> CachesAfter(const std::shared_ptr<Configurations>& old);

 private:
  CompiledGrammar(Grammar grammar, std::shared_ptr<const GrammarVocabulary> vocabulary);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::mutex mutex_;
  std::shared_ptr<Configurations> caches_;
};

// The answer is a text of the grammar, then a stop id.
class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<CompiledGrammar> grammar);

  std::span<const uint64_t> Allowed() override;
  bool Accept(int32_t id) override;
  // Whether the text so far is one of the grammar: a stop id is allowed.
  bool is_complete() const;

 private:
  std::shared_ptr<CompiledGrammar> grammar_;
  std::shared_ptr<Configurations> caches_;
  int32_t configuration_;
  std::shared_ptr<const std::vector<uint64_t>> mask_;  // what Allowed gave
};

}  // namespace cachalot
