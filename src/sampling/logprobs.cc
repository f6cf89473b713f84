#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sampling/likeliest.h"

namespace cachalot {

TokenLogprobs LogprobsOf(std::span<const float> logits, int32_t chosen, int64_t top_n) {
  CACHALOT_CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size());
  CACHALOT_CHECK(top_n >= 0 && top_n <= kMaxTopLogprobs);
  const float largest = logits[static_cast<size_t>(ArgMax(logits))];
  // Infinities are alike: the difference of two is no number.
  const auto apart = [&](float logit) {
    return logit == largest ? 0 : static_cast<double>(logit) - static_cast<double>(largest);
  };
  double sum = 0;
  for (const float logit : logits) {
    if (logit <= largest) {
      sum += std::exp(apart(logit));
    }
  }
  const double log_sum = std::log(sum);
  const auto logprob = [&](float logit) {
    return logit > -HUGE_VALF ? static_cast<float>(apart(logit) - log_sum) : -HUGE_VALF;
  };
  TokenLogprobs result = {{chosen, logprob(logits[static_cast<size_t>(chosen)])}, {}};
  std::vector<Candidate> best;
  FindLikeliest(logits, top_n, &best);
  std::sort(best.begin(), best.end(), IsLikelier);
  for (const Candidate& candidate : best) {
    result.top.push_back({candidate.id, logprob(candidate.logit)});
  }
  return result;
}

}  // namespace cachalot
