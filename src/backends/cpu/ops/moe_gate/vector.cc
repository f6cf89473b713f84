#include "backends/cpu/ops/moe_gate/vector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/context.h"
#include "backends/cpu/ops/linear/vector.h"
#include "device/ops.h"

namespace cachalot::cpu {
namespace {

// log(1 + e^z) without overflow, under the root.
double SqrtSoftplus(double z) {
  return std::sqrt(std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))));
}

// The experts with the largest scores in falling order, ties to the lower one: each expert moves
// up past those that it beats.
void KeepLargest(const std::vector<double>& scores, int64_t count, int32_t* chosen) {
  int64_t kept = 0;
  for (size_t e = 0; e < scores.size(); ++e) {
    int64_t place = kept;
    while (place > 0 && scores[static_cast<size_t>(chosen[place - 1])] < scores[e]) {
      --place;
    }
    if (place == count) {
      continue;
    }
    kept = std::min(kept + 1, count);
    std::copy_backward(chosen + place, chosen + kept - 1, chosen + kept);
    chosen[place] = static_cast<int32_t>(e);
  }
}

void Route(const MoeGateParams& params, int64_t t, const float* products,
           std::vector<double>& scores, std::vector<double>& biased) {
  const int64_t count = params.experts.shape[1];
  int32_t* chosen = params.experts.As<int32_t>() + t * count;
  for (size_t e = 0; e < scores.size(); ++e) {
    scores[e] = SqrtSoftplus(products[e]);
  }
  if (params.table.empty()) {
    for (size_t e = 0; e < scores.size(); ++e) {
      biased[e] = scores[e] + params.bias.As<float>()[e];
      if (std::isnan(biased[e])) {
        biased[e] = -std::numeric_limits<double>::infinity();
      }
    }
    KeepLargest(biased, count, chosen);
  } else {
    const int64_t* row = params.table.As<int64_t>() + params.ids.As<int32_t>()[t] * count;
    std::transform(row, row + count, chosen, [](int64_t e) { return static_cast<int32_t>(e); });
  }
  double sum = 0;
  for (int64_t slot = 0; slot < count; ++slot) {
    sum += scores[static_cast<size_t>(chosen[slot])];
  }
  for (int64_t slot = 0; slot < count; ++slot) {
    params.weights.As<float>()[t * count + slot] =
        static_cast<float>(scores[static_cast<size_t>(chosen[slot])] / sum * params.route_scale);
  }
}

void RunMoeGate(const MoeGateParams& params, Context& context, const LinearKernel* kernels) {
  const Matrix& gate = params.gate;
  const int64_t tokens = params.x.shape[0];
  float* products = context.scratch().Reserve<float>(tokens * gate.rows);
  RunProduct({.w = gate, .x = params.x.As<float>(), .tokens = tokens, .y = products}, context,
             kernels);
  ThreadPool& pool = context.pool();
  pool.ParallelFor(tokens, [&](int64_t begin, int64_t end) {
    std::vector<double> scores(static_cast<size_t>(gate.rows));
    std::vector<double> biased(scores.size());
    for (int64_t t = begin; t < end; ++t) {
      Route(params, t, products + t * gate.rows, scores, biased);
    }
  });
}

}  // namespace

void Avx2MoeGate(const MoeGateParams& params, Context& context) {
  RunMoeGate(params, context, avx2::kLinearKernels);
}

void Avx512MoeGate(const MoeGateParams& params, Context& context) {
  RunMoeGate(params, context, avx512::kLinearKernels);
}

}  // namespace cachalot::cpu
