#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void Rope(const RopeParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1, -1}, "x");
  CheckTensor(params.positions, DType::kI32, {params.x.shape[0]}, "positions");
  CheckIndices(params.positions, int64_t{1} << 31, "positions");
  CheckRope(params.table, params.x.shape[2]);
  RunFirst(RopeVariants(), params, context);
}

}  // namespace cachalot::cpu
