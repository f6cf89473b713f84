#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void BroadcastStreams(const BroadcastStreamsParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1}, "x");
  CheckTensor(params.y, DType::kF32, {params.x.shape[0], -1, params.x.shape[1]}, "y");
  CheckApart(params.y, params.x, "y and x");
  RunFirst(BroadcastStreamsVariants(), params, context);
}

}  // namespace cachalot::cpu
