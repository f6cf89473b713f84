#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void HcHead(const HcHeadParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1, -1}, "x");
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  CheckTensor(params.fn, DType::kF32, {streams, streams * width}, "fn");
  CheckTensor(params.base, DType::kF32, {streams}, "base");
  CheckTensor(params.scale, DType::kF32, {1}, "scale");
  CheckTensor(params.y, DType::kF32, {params.x.shape[0], width}, "y");
  CACHALOT_CHECK(params.rms_eps >= 0 && params.hc_eps >= 0, "rms_eps {}, hc_eps {}", params.rms_eps,
                 params.hc_eps);
  CheckApart(params.y, params.x, "y and x");
  RunFirst(HcHeadVariants(), params, context);
}

}  // namespace cachalot::cpu
