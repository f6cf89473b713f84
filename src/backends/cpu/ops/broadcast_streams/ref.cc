#include "backends/cpu/ops/broadcast_streams/ref.h"

#include <cstring>

namespace cachalot::cpu {

void RefBroadcastStreams(const BroadcastStreamsParams& params, Context& context) {
  const int64_t streams = params.y.shape[1];
  const int64_t width = params.y.shape[2];
  context.pool().ParallelFor(params.x.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = params.x.As<float>() + t * width;
      for (int64_t s = 0; s < streams; ++s) {
        float* y = params.y.As<float>() + (t * streams + s) * width;
        if (!params.accumulate) {
          std::memcpy(y, x, static_cast<size_t>(width) * sizeof(float));
          continue;
        }
        for (int64_t i = 0; i < width; ++i) {
          y[i] += x[i];
        }
      }
    }
  });
}

}  // namespace cachalot::cpu
