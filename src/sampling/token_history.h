// The tokens that a request has so far, as its penalties see them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/params.h"

namespace cachalot {

class TokenHistory {
 public:
  struct Count {
    int32_t id;
    int32_t in_answer;  // 0: in the prompt alone
  };

  // Empty, and stays so: of a request without penalties.
  TokenHistory() = default;
  // Keeps what these penalties have a use for, which is nothing where there are none.
  TokenHistory(const SamplingParams& params, std::span<const int32_t> prompt);

  // One more token of the answer.
  void Add(int32_t id);

  std::span<const Count> counts() const { return counts_; }

 private:
  bool counts_answer_ = false;
  std::vector<Count> counts_;  // by id
};

}  // namespace cachalot
