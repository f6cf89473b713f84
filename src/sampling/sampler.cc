#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace cachalot {
namespace {

// The finaliser of splitmix64: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

Status CheckRange(const char* name, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    return MakeError(StatusCode::kInvalidArgument, "{} is {}, expected {} to {}", name, value, low,
                     high);
  }
  return {};
}

}  // namespace

Status CheckSamplingParams(const SamplingParams& params) {
  CACHALOT_RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0, 100));
  CACHALOT_RETURN_IF_ERROR(CheckRange("top_p", params.top_p, 0, 1));
  CACHALOT_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  if (params.top_k < 0) {
    return MakeError(StatusCode::kInvalidArgument, "top_k is {}, expected 0 or more", params.top_k);
  }
  return {};
}

int32_t ArgMax(std::span<const float> logits) {
  int32_t best = 0;
  float largest = -HUGE_VALF;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > largest) {
      largest = logits[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

double UniformAt(uint64_t seed, int64_t step) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;
  const uint64_t bits = Mix(Mix(seed + kGolden) + kGolden * static_cast<uint64_t>(step + 1));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int32_t Sampler::Sample(std::span<const float> logits, const SamplingParams& params, int64_t step) {
  CACHALOT_CHECK(!logits.empty());
  const int32_t best = ArgMax(logits);
  if (params.temperature == 0 || params.top_k == 1) {
    return best;
  }
  const float largest = logits[static_cast<size_t>(best)];
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -HUGE_VALF) {
      const double apart = static_cast<double>(logits[i]) - static_cast<double>(largest);
      candidates_.push_back(
          {static_cast<int32_t>(i), logits[i], std::exp(apart / params.temperature)});
    }
  }
  if (candidates_.empty()) {
    return best;
  }
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const auto top_k = static_cast<size_t>(params.top_k);
  if (top_k > 0 && top_k < candidates_.size()) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + params.top_k, candidates_.end(),
                      likelier);
    candidates_.resize(top_k);
  } else if (params.top_p < 1 || params.min_p > 0) {
    std::sort(candidates_.begin(), candidates_.end(), likelier);
  }

  if (params.top_p < 1) {
    double total = 0;
    for (const Candidate& candidate : candidates_) {
      total += candidate.probability;
    }
    double kept = 0;
    size_t count = 0;
    while (count < candidates_.size() && (count == 0 || kept < params.top_p * total)) {
      kept += candidates_[count++].probability;
    }
    candidates_.resize(count);
  }
  if (params.min_p > 0) {
    // The best has probability 1 before normalising, and the rest fall.
    const auto end = std::find_if(candidates_.begin(), candidates_.end(),
                                  [&](const Candidate& c) { return c.probability < params.min_p; });
    candidates_.erase(end, candidates_.end());
  }

  double total = 0;
  for (const Candidate& candidate : candidates_) {
    total += candidate.probability;
  }
  double left = UniformAt(params.seed, step) * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.probability;
    if (left < 0) {
      return candidate.id;
    }
  }
  return candidates_.back().id;  // rounding left a crumb
}

}  // namespace cachalot
