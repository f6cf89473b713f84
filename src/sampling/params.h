// How a request wants its tokens chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"

namespace cachalot {

struct LogitBias {
  int32_t id;
  double bias;  // -100 to 100, added to the logit

  bool operator==(const LogitBias&) const = default;
};

// Applied in this order: repetition_penalty, then frequency_penalty and presence_penalty, then
// logit_bias, then the ids that may not be sampled; temperature 0 takes the best of what is left,
// otherwise temperature, top_k, top_p and min_p shape the distribution that is drawn from.
struct SamplingParams {
  double temperature = 1;  // 0: greedy
  int64_t top_k = 0;       // keep the k most likely; 0: all
  double top_p = 1;        // then the fewest most likely whose probabilities reach top_p
  double min_p = 0;        // then those at least min_p times as likely as the best
  uint64_t seed = 0;

  // A token that the answer has count times loses count * frequency_penalty + presence_penalty.
  double frequency_penalty = 0;
  double presence_penalty = 0;
  // The logit of a token that the prompt or the answer has is divided by this where it is positive
  // and multiplied where it is negative; 1: as it is.
  double repetition_penalty = 1;
  std::vector<LogitBias> logit_bias;

  // These end an answer, and are not sampled before it has min_new_tokens tokens.
  std::vector<int32_t> stop_ids;
  int64_t min_new_tokens = 0;
  // Never sampled: rows of the vocabulary that no token stands for. Null: none. One list for all
  // requests.
  std::shared_ptr<const std::vector<int32_t>> banned_ids;
};

inline constexpr int64_t kMaxLogitBiases = 1024;

// Both name the setting that is out of bounds.
Status CheckSamplingParams(const SamplingParams& params);
// That every id is one of the vocabulary.
Status CheckSamplingIds(const SamplingParams& params, int64_t vocab_size);

}  // namespace cachalot
