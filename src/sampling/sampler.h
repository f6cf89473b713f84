// From logits to a token. A pure function of the logits, the settings and the place in the answer:
// what else is in the batch, and what was sampled for others, never changes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace cachalot {

struct SamplingParams {
  double temperature = 1;  // 0: greedy
  int64_t top_k = 0;       // keep the k most likely; 0: all
  double top_p = 1;        // then the fewest most likely whose probabilities reach top_p
  double min_p = 0;        // then those at least min_p times as likely as the best
  uint64_t seed = 0;
};

// Names the setting that is out of bounds.
Status CheckSamplingParams(const SamplingParams& params);

// The largest logit, ties to the lower id. NaN is never chosen.
int32_t ArgMax(std::span<const float> logits);

class Sampler {
 public:
  // `step` counts the tokens of the answer; equal (logits, params, step) give equal tokens.
  int32_t Sample(std::span<const float> logits, const SamplingParams& params, int64_t step);

 private:
  struct Candidate {
    int32_t id;
    float logit;
    double probability;
  };
  std::vector<Candidate> candidates_;  // kept between calls for its memory
};

// Uniform in [0, 1), a function of its arguments alone.
double UniformAt(uint64_t seed, int64_t step);

}  // namespace cachalot
