#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void HcPost(const HcPostParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1, -1}, "x");
  const int64_t tokens = params.x.shape[0];
  const int64_t streams = params.x.shape[1];
  CheckTensor(params.y, DType::kF32, {tokens, params.x.shape[2]}, "y");
  CheckTensor(params.post, DType::kF32, {tokens, streams}, "post");
  CheckTensor(params.comb, DType::kF32, {tokens, streams, streams}, "comb");
  CheckApart(params.x, params.y, "x and y");
  CheckApart(params.x, params.post, "x and post");
  CheckApart(params.x, params.comb, "x and comb");
  RunFirst(HcPostVariants(), params, context);
}

}  // namespace cachalot::cpu
