#include "backends/cpu/ops/hc_head/vector.h"

#include <cmath>

#include "backends/cpu/context.h"
#include "backends/cpu/ops/hc_pre/vector.h"
#include "device/ops.h"

namespace cachalot::cpu {
namespace {

void RunHcHead(const HcHeadParams& params, Context& context, const HcKernels& kernels) {
  const int64_t tokens = params.x.shape[0];
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  float* mixes = context.scratch().Reserve<float>(tokens * streams);
  VectorHcMixes(params.x, params.fn, params.rms_eps, kernels, context, mixes);

  const double scale = params.scale.As<float>()[0];
  context.pool().ParallelFor(tokens, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* weights = mixes + t * streams;
      for (int64_t s = 0; s < streams; ++s) {
        const double logit = weights[s] * scale + params.base.As<float>()[s];
        weights[s] = static_cast<float>(1 / (1 + std::exp(-logit)) + params.hc_eps);
      }
      kernels.collapse({.x = params.x.As<float>() + t * streams * width,
                        .weights = weights,
                        .streams = streams,
                        .width = width,
                        .y = params.y.As<float>() + t * width});
    }
  });
}

}  // namespace

void Avx2HcHead(const HcHeadParams& params, Context& context) {
  RunHcHead(params, context, Avx2HcKernels());
}

void Avx512HcHead(const HcHeadParams& params, Context& context) {
  RunHcHead(params, context, Avx512HcKernels());
}

}  // namespace cachalot::cpu
