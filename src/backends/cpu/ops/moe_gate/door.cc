#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void MoeGate(const MoeGateParams& params, Context& context) {
  CheckMatrix(params.gate, -1, -1, "gate");
  CheckTensor(params.x, DType::kF32, {-1, params.gate.cols}, "x");
  const int64_t tokens = params.x.shape[0];
  const int64_t num_experts = params.gate.rows;
  CheckTensor(params.experts, DType::kI32, {tokens, -1}, "experts");
  const int64_t chosen = params.experts.shape[1];
  CACHALOT_CHECK(1 <= chosen && chosen <= num_experts, "{} of {} experts", chosen, num_experts);
  CheckTensor(params.weights, DType::kF32, {tokens, chosen}, "weights");
  CACHALOT_CHECK(params.bias.empty() != params.table.empty(),
                 "expected either a bias or a table, found {}",
                 params.bias.empty() ? "neither" : "both");
  if (!params.bias.empty()) {
    CheckTensor(params.bias, DType::kF32, {num_experts}, "bias");
  } else {
    CheckTensor(params.table, DType::kI64, {-1, chosen}, "table");
    CheckTensor(params.ids, DType::kI32, {tokens}, "ids");
    CheckIndices(params.ids, params.table.shape[0], "ids");
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t* row = params.table.As<int64_t>() + params.ids.As<int32_t>()[t] * chosen;
      for (int64_t slot = 0; slot < chosen; ++slot) {
        CACHALOT_CHECK(0 <= row[slot] && row[slot] < num_experts, "the table sends id {} to {}",
                       params.ids.As<int32_t>()[t], row[slot]);
      }
    }
  }
  RunFirst(MoeGateVariants(), params, context);
}

}  // namespace cachalot::cpu
