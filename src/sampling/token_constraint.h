// What an answer may be made of, token by token: a grammar, a budget of thinking.
#pragma once

#include <cstdint>
#include <span>

namespace cachalot {

// Of one answer; used by one thread at a time.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // A bit for each id of the vocabulary, 64 to a word, the lowest id in the lowest bit of the first:
  // the tokens that may come next, one at least. Empty: any may. A stop id needs its bit too. Good
  // until Accept.
  virtual std::span<const uint64_t> Allowed() = 0;
  // The token that came, one of the allowed; no stop id. False: nothing can follow, the answer is
  // complete with it.
  virtual bool Accept(int32_t id) = 0;
};

}  // namespace cachalot
