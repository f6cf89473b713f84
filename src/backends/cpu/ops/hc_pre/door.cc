#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void HcPre(const HcPreParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1, -1}, "x");
  const int64_t tokens = params.x.shape[0];
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  const int64_t mixes = (2 + streams) * streams;
  CheckTensor(params.fn, DType::kF32, {mixes, streams * width}, "fn");
  CheckTensor(params.base, DType::kF32, {mixes}, "base");
  CheckTensor(params.scale, DType::kF32, {3}, "scale");
  CheckTensor(params.y, DType::kF32, {tokens, width}, "y");
  CheckTensor(params.post, DType::kF32, {tokens, streams}, "post");
  CheckTensor(params.comb, DType::kF32, {tokens, streams, streams}, "comb");
  CACHALOT_CHECK(params.rms_eps >= 0 && params.hc_eps >= 0 && params.sinkhorn_iters >= 1,
                 "rms_eps {}, hc_eps {}, {} iterations", params.rms_eps, params.hc_eps,
                 params.sinkhorn_iters);
  CheckApart(params.y, params.x, "y and x");
  RunFirst(HcPreVariants(), params, context);
}

}  // namespace cachalot::cpu
