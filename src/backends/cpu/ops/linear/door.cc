#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void Linear(const LinearParams& params, Context& context) {
  CACHALOT_CHECK_GE(params.groups, 1);
  CACHALOT_CHECK_EQ(params.w.rows % params.groups, 0);
  CheckMatrix(params.w, -1, -1, "w");
  CheckTensor(params.x, DType::kF32, {-1, params.groups * params.w.cols}, "x");
  CheckTensor(params.y, DType::kF32, {params.x.shape[0], params.w.rows}, "y");
  CheckApart(params.y, params.x, "y and x");
  RunFirst(LinearVariants(), params, context);
}

}  // namespace cachalot::cpu
