#include "backends/cpu/ops/stream_mean/ref.h"

namespace cachalot::cpu {

void RefStreamMean(const StreamMeanParams& params, Context& context) {
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  context.pool().ParallelFor(params.x.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = params.x.As<float>() + t * streams * width;
      float* y = params.y.As<float>() + t * width;
      for (int64_t i = 0; i < width; ++i) {
        double sum = 0;
        for (int64_t s = 0; s < streams; ++s) {
          sum += x[s * width + i];
        }
        y[i] = static_cast<float>(sum / static_cast<double>(streams));
      }
    }
  });
}

}  // namespace cachalot::cpu
