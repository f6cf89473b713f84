#include "backends/cpu/ops/moe_gate/ref.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/cpu/ops/matrix_rows.h"

namespace cachalot::cpu {
namespace {

double SqrtSoftplus(double z) {
  return std::sqrt(std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))));
}

// The experts with the largest scores, ties to the lower one; what is not a number comes last.
void ChooseLargest(std::vector<double> scores, std::span<int32_t> chosen) {
  for (double& score : scores) {
    score = std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
  }
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort_copy(order.begin(), order.end(), chosen.begin(), chosen.end(),
                         [&](int32_t a, int32_t b) {
                           const double left = scores[static_cast<size_t>(a)];
                           const double right = scores[static_cast<size_t>(b)];
                           return left != right ? left > right : a < b;
                         });
}

void Route(const MoeGateParams& params, int64_t t, std::span<const double> scores) {
  const auto count = static_cast<size_t>(params.experts.shape[1]);
  const std::span chosen(params.experts.As<int32_t>() + static_cast<size_t>(t) * count, count);
  if (params.table.empty()) {
    std::vector<double> biased(scores.begin(), scores.end());
    for (size_t e = 0; e < biased.size(); ++e) {
      biased[e] += params.bias.As<float>()[e];
    }
    ChooseLargest(std::move(biased), chosen);
  } else {
    const auto id = static_cast<size_t>(params.ids.As<int32_t>()[t]);
    const int64_t* row = params.table.As<int64_t>() + id * count;
    std::transform(row, row + count, chosen.begin(),
                   [](int64_t expert) { return static_cast<int32_t>(expert); });
  }
  double sum = 0;
  for (const int32_t expert : chosen) {
    sum += scores[static_cast<size_t>(expert)];
  }
  float* weights = params.weights.As<float>() + static_cast<size_t>(t) * count;
  for (size_t slot = 0; slot < count; ++slot) {
    const double score = scores[static_cast<size_t>(chosen[slot])];
    weights[slot] = static_cast<float>(score / sum * params.route_scale);
  }
}

}  // namespace

void RefMoeGate(const MoeGateParams& params, Context& context) {
  const int64_t tokens = params.x.shape[0];
  const auto num_experts = static_cast<size_t>(params.gate.rows);
  std::vector<double> scores(static_cast<size_t>(tokens) * num_experts);
  context.pool().ParallelFor(params.gate.rows, [&](int64_t begin, int64_t end) {
    std::vector<double> weights(static_cast<size_t>(params.gate.cols));
    for (int64_t e = begin; e < end; ++e) {
      DecodeMatrixRow(params.gate, e, weights);
      for (int64_t t = 0; t < tokens; ++t) {
        const float* x = params.x.As<float>() + t * params.gate.cols;
        scores[static_cast<size_t>(t * params.gate.rows + e)] = SqrtSoftplus(Dot(weights, x));
      }
    }
  });
  context.pool().ParallelFor(tokens, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      Route(params, t,
            std::span(scores).subspan(static_cast<size_t>(t) * num_experts, num_experts));
    }
  });
}

}  // namespace cachalot::cpu
