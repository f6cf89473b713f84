#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cachalot {
namespace {

std::vector<double> Geometric(double theta, int64_t dim) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dim; i += 2) {
    frequencies.push_back(1.0 / std::pow(theta, static_cast<double>(i) / static_cast<double>(dim)));
  }
  return frequencies;
}

// Pairs that turn often inside the original context keep their frequency, rare ones are stretched,
// with a ramp between.
void Stretch(const YarnScaling& yarn, double theta, int64_t dim, std::vector<double>* frequencies) {
  const auto pair_of = [&](double rotations) {
    return static_cast<double>(dim) *
           std::log(yarn.original_max_position / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double low = std::max(std::floor(pair_of(yarn.beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair_of(yarn.beta_slow)), static_cast<double>(dim) - 1);
  for (size_t i = 0; i < frequencies->size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(high - low, 0.001);
    const double keep = 1 - std::clamp(ramp, 0.0, 1.0);
    double& frequency = (*frequencies)[i];
    frequency = frequency / yarn.factor * (1 - keep) + frequency * keep;
  }
}

}  // namespace

RopeFrequencies::RopeFrequencies(const ModelConfig& config)
    : dim_(config.rope_dim),
      plain_(Geometric(config.rope_theta, config.rope_dim)),
      compressed_(Geometric(config.compress_rope_theta, config.rope_dim)) {
  Stretch(config.yarn, config.compress_rope_theta, config.rope_dim, &compressed_);
}

}  // namespace cachalot
