// From logits to a token. A pure function of the logits, the settings, the request's own tokens and
// the place in the answer: what else is in the batch, and what was sampled for others, never changes
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/likeliest.h"
#include "sampling/params.h"
#include "sampling/seed.h"
#include "sampling/token_history.h"

namespace cachalot {

// Has memory to work in and no state: one for each thread.
class Sampler {
 public:
  // `logits` is a row of the vocabulary, changed in between but given back as it was. `step` counts
  // the tokens of the answer; equal arguments give equal tokens. Settings as CheckSamplingParams and
  // CheckSamplingIds let them pass. Where every logit is -infinity, NaN or banned, the token is 0.
  // `allowed` is a TokenConstraint's: no other id is sampled. Where all of them are banned, as stop ids
  // before min_new_tokens, or -infinity, they are as likely as each other.
  int32_t Sample(std::span<float> logits, const SamplingParams& params, const TokenHistory& history,
                 int64_t step, std::span<const uint64_t> allowed = {});

 private:
  struct Change {
    int32_t id;
    float before;
  };

  void Set(std::span<float> logits, int32_t id, float value);
  void Adjust(std::span<float> logits, const SamplingParams& params, const TokenHistory& history,
              int64_t step);
  std::span<const float> LeaveAllowed(std::span<const float> logits,
                                      std::span<const uint64_t> allowed);
  void Restore(std::span<float> logits);
  int32_t Choose(std::span<const float> logits, const SamplingParams& params, int64_t step);
  int32_t DrawFromAll(std::span<const float> logits, double temperature, double uniform);
  int32_t DrawFromLikeliest(std::span<const float> logits, const SamplingParams& params,
                            double uniform);
  // Sets candidates_ to the top_k, or to all that top_p and min_p can possibly keep, and returns the
  // weight that top_p is a part of.
  double FindPossible(std::span<const float> logits, const SamplingParams& params);

  // Kept between calls for their memory.
  std::vector<Change> changes_;
  std::vector<float> allowed_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
};

}  // namespace cachalot
