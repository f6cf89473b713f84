#include "backends/cpu/ops/hc_post/ref.h"

#include <vector>

namespace cachalot::cpu {

void RefHcPost(const HcPostParams& params, Context& context) {
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  context.pool().ParallelFor(params.x.shape[0], [&](int64_t begin, int64_t end) {
    std::vector<double> mixed(static_cast<size_t>(streams));
    for (int64_t t = begin; t < end; ++t) {
      const float* y = params.y.As<float>() + t * width;
      const float* post = params.post.As<float>() + t * streams;
      const float* comb = params.comb.As<float>() + t * streams * streams;
      float* x = params.x.As<float>() + t * streams * width;
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t j = 0; j < streams; ++j) {
          double sum = static_cast<double>(post[j]) * y[c];
          for (int64_t i = 0; i < streams; ++i) {
            sum += static_cast<double>(comb[i * streams + j]) * x[i * width + c];
          }
          mixed[static_cast<size_t>(j)] = sum;
        }
        for (int64_t j = 0; j < streams; ++j) {
          x[j * width + c] = static_cast<float>(mixed[static_cast<size_t>(j)]);
        }
      }
    }
  });
}

}  // namespace cachalot::cpu
