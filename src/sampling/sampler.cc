#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace cachalot {
namespace {

// Probability before normalising: that of the largest logit is 1.
class Weigher {
 public:
  Weigher(float largest, double temperature) : largest_(largest), temperature_(temperature) {}

  double operator()(float logit) const {
    if (!(logit < largest_)) {
      return logit == largest_ ? 1 : 0;  // infinities are alike; NaN is never drawn
    }
    return std::exp((static_cast<double>(logit) - static_cast<double>(largest_)) / temperature_);
  }
  // A logit that weighs as much.
  double LogitOf(double weight) const { return largest_ + temperature_ * std::log(weight); }

 private:
  float largest_;
  double temperature_;
};

double SumOfWeights(std::span<const Candidate> candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += candidate.weight;
  }
  return sum;
}

// Moves the fewest likeliest candidates that together weigh `target` to the front, the last of them
// last, and returns how many they are: at least one, at most all. Halves what is in question each
// time, where sorting would cost far more on a wide and flat distribution.
size_t GatherWeight(std::span<Candidate> candidates, double target) {
  constexpr size_t kFew = 64;
  size_t begin = 0;
  size_t end = candidates.size();
  double before = 0;
  while (end - begin > kFew) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(&candidates[begin], &candidates[middle], candidates.data() + end, IsLikelier);
    const double with_half = before + SumOfWeights(candidates.subspan(begin, middle - begin));
    if (with_half >= target) {
      end = middle;
    } else {
      before = with_half;
      begin = middle;
    }
  }
  std::sort(candidates.data() + begin, candidates.data() + end, IsLikelier);
  while (begin < end) {
    before += candidates[begin++].weight;
    if (before >= target) {
      break;
    }
  }
  return begin;
}

}  // namespace

int32_t Sampler::Sample(std::span<float> logits, const SamplingParams& params,
                        const TokenHistory& history, int64_t step,
                        std::span<const uint64_t> allowed) {
  CACHALOT_CHECK(!logits.empty());
  Adjust(logits, params, history, step);
  const int32_t id = allowed.empty() ? Choose(logits, params, step)
                                     : Choose(LeaveAllowed(logits, allowed), params, step);
  Restore(logits);
  return id;
}

void Sampler::Set(std::span<float> logits, int32_t id, float value) {
  float& logit = logits[static_cast<size_t>(id)];
  changes_.push_back({id, logit});
  logit = value;
}

void Sampler::Adjust(std::span<float> logits, const SamplingParams& params,
                     const TokenHistory& history, int64_t step) {
  for (const auto& [id, in_answer] : history.counts()) {
    double logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (in_answer > 0) {
      logit -= in_answer * params.frequency_penalty + params.presence_penalty;
    }
    Set(logits, id, static_cast<float>(logit));
  }
  for (const auto& [id, bias] : params.logit_bias) {
    Set(logits, id, static_cast<float>(logits[static_cast<size_t>(id)] + bias));
  }
  if (params.banned_ids) {
    for (const int32_t id : *params.banned_ids) {
      Set(logits, id, -HUGE_VALF);
    }
  }
  if (step < params.min_new_tokens) {
    for (const int32_t id : params.stop_ids) {
      Set(logits, id, -HUGE_VALF);
    }
  }
}

// A copy: few may be left, or nearly all.
std::span<const float> Sampler::LeaveAllowed(std::span<const float> logits,
                                             std::span<const uint64_t> allowed) {
  const auto is_allowed = [&](size_t id) { return (allowed[id / 64] >> (id % 64) & 1) != 0; };
  allowed_.assign(logits.begin(), logits.end());
  bool any = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!is_allowed(id)) {
      allowed_[id] = -HUGE_VALF;
    }
    any = any || allowed_[id] > -HUGE_VALF;
  }
  for (size_t id = 0; !any && id < logits.size(); ++id) {
    allowed_[id] = is_allowed(id) ? 0 : -HUGE_VALF;
  }
  return allowed_;
}

void Sampler::Restore(std::span<float> logits) {
  // Backwards: an id may have changed more than once.
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    logits[static_cast<size_t>(change->id)] = change->before;
  }
  changes_.clear();
}

int32_t Sampler::Choose(std::span<const float> logits, const SamplingParams& params, int64_t step) {
  if (params.temperature == 0 || params.top_k == 1) {
    return ArgMax(logits);
  }
  const double uniform = UniformAt(params.seed, step);
  const bool all_k = params.top_k == 0 || params.top_k >= static_cast<int64_t>(logits.size());
  return all_k && params.top_p == 1 && params.min_p == 0
             ? DrawFromAll(logits, params.temperature, uniform)
             : DrawFromLikeliest(logits, params, uniform);
}

int32_t Sampler::DrawFromAll(std::span<const float> logits, double temperature, double uniform) {
  const int32_t best = ArgMax(logits);
  const float largest = logits[static_cast<size_t>(best)];
  if (!(largest > -HUGE_VALF)) {
    return 0;
  }
  const Weigher weigh(largest, temperature);
  weights_.resize(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = weigh(logits[i]);
    total += weights_[i];
  }
  double left = uniform * total;
  for (size_t i = 0; i < logits.size(); ++i) {
    left -= weights_[i];
    if (left < 0) {
      return static_cast<int32_t>(i);
    }
  }
  return best;  // rounding left a crumb
}

double Sampler::FindPossible(std::span<const float> logits, const SamplingParams& params) {
  const Weigher weigh(logits[static_cast<size_t>(ArgMax(logits))], params.temperature);
  if (params.top_k > 0) {
    FindLikeliest(logits, params.top_k, &candidates_);
    for (Candidate& candidate : candidates_) {
      candidate.weight = weigh(candidate.logit);
    }
    return SumOfWeights(candidates_);
  }
  double total = 0;
  double least = params.min_p;
  if (params.top_p < 1) {
    for (const float logit : logits) {
      total += weigh(logit);
    }
    // All that are lighter than this weigh less together than what top_p leaves out.
    least = std::max(least, (1 - params.top_p) * total / static_cast<double>(logits.size()));
  }
  const double floor = weigh.LogitOf(least * (1 - 1e-9));  // rounding must lose none
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= floor && logits[i] > -HUGE_VALF) {
      candidates_.push_back({static_cast<int32_t>(i), logits[i], weigh(logits[i])});
    }
  }
  return total;
}

int32_t Sampler::DrawFromLikeliest(std::span<const float> logits, const SamplingParams& params,
                                   double uniform) {
  const double total = FindPossible(logits, params);
  if (candidates_.empty()) {
    return 0;
  }
  if (params.top_p < 1) {
    candidates_.resize(GatherWeight(candidates_, params.top_p * total));
  }
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < params.min_p; });
  const size_t drawn = GatherWeight(candidates_, uniform * SumOfWeights(candidates_));
  return candidates_[drawn - 1].id;
}

}  // namespace cachalot
