#include "backends/cpu/ops/hc_head/ref.h"

#include <cmath>

#include "backends/cpu/ops/hc_pre/ref.h"

namespace cachalot::cpu {

void RefHcHead(const HcHeadParams& params, Context& context) {
  const auto streams = static_cast<size_t>(params.x.shape[1]);
  const auto width = static_cast<size_t>(params.x.shape[2]);
  context.pool().ParallelFor(params.x.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = params.x.As<float>() + static_cast<size_t>(t) * streams * width;
      std::vector<double> weights = HcMixes({x, streams * width}, params.fn, params.rms_eps);
      for (size_t s = 0; s < streams; ++s) {
        const double logit = weights[s] * params.scale.As<float>()[0] + params.base.As<float>()[s];
        weights[s] = 1 / (1 + std::exp(-logit)) + params.hc_eps;
      }
      HcCollapse(weights, x, {params.y.As<float>() + static_cast<size_t>(t) * width, width});
    }
  });
}

}  // namespace cachalot::cpu
