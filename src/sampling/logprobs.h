// How likely the model itself found a token and its rivals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cachalot {

struct TokenLogprob {
  int32_t id;
  float logprob;  // natural logarithm of the probability; -infinity where that is 0
};

struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the likeliest first, ties to the lower id
};

inline constexpr int64_t kMaxTopLogprobs = 20;

// Of the log-softmax of a row of logits as the model gave it: before bias, penalties, bans and
// temperature. Summed in double in the order of ids. `top` is shorter than `top_n`, 0 to
// kMaxTopLogprobs, where fewer tokens have a probability. NaN counts as -infinity.
TokenLogprobs LogprobsOf(std::span<const float> logits, int32_t chosen, int64_t top_n);

}  // namespace cachalot
