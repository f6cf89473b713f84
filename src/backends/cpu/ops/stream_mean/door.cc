#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void StreamMean(const StreamMeanParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1, -1}, "x");
  CACHALOT_CHECK_GE(params.x.shape[1], 1);
  CheckTensor(params.y, DType::kF32, {params.x.shape[0], params.x.shape[2]}, "y");
  CheckApart(params.y, params.x, "y and x");
  RunFirst(StreamMeanVariants(), params, context);
}

}  // namespace cachalot::cpu
