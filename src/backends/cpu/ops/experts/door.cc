#include "backends/cpu/ops/door.h"

#include <vector>

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {
namespace {

void CheckExpert(const ExpertWeights& expert, int64_t inner, int64_t hidden) {
  CheckMatrix(expert.w1, inner, hidden, "w1");
  CheckMatrix(expert.w2, hidden, inner, "w2");
  CheckMatrix(expert.w3, inner, hidden, "w3");
}

}  // namespace

void Experts(const ExpertsParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1}, "x");
  const int64_t tokens = params.x.shape[0];
  const int64_t hidden = params.x.shape[1];
  CheckTensor(params.experts, DType::kI32, {tokens, -1}, "experts");
  CheckTensor(params.weights, DType::kF32, {tokens, params.experts.shape[1]}, "weights");
  CheckTensor(params.y, DType::kF32, {tokens, hidden}, "y");
  CheckApart(params.y, params.x, "y and x");
  const auto num_experts = static_cast<int64_t>(params.routed.size());
  CheckIndices(params.experts, num_experts, "experts");
  CACHALOT_CHECK(num_experts > 0 && params.shared != nullptr, "{} experts, {}", num_experts,
                 params.shared != nullptr ? "one shared" : "none shared");
  CheckExpert(*params.shared, params.shared->w1.rows, hidden);
  // Only the experts that run: a layer has hundreds.
  std::vector<bool> seen(params.routed.size());
  for (int64_t i = 0; i < params.experts.num_elements(); ++i) {
    const auto e = static_cast<size_t>(params.experts.As<int32_t>()[i]);
    if (seen[e]) {
      continue;
    }
    seen[e] = true;
    const ExpertWeights& expert = params.routed[e];
    CheckExpert(expert, params.routed[0].w1.rows, hidden);
    const MatrixFormat format = params.routed[0].w1.format;
    CACHALOT_CHECK(
        expert.w1.format == format && expert.w2.format == format && expert.w3.format == format,
        "expert {} is not all {}", e, NameOf(format));
  }
  RunFirst(ExpertsVariants(), params, context);
}

}  // namespace cachalot::cpu
