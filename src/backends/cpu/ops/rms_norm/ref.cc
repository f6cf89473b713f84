#include "backends/cpu/ops/rms_norm/ref.h"

#include <cmath>

namespace cachalot::cpu {

void RefRmsNorm(const RmsNormParams& params, Context& context) {
  const int64_t width = params.x.shape[params.x.shape.rank() - 1];
  const int64_t rows = width > 0 ? params.x.num_elements() / width : 0;
  context.pool().ParallelFor(rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = params.x.As<float>() + row * width;
      float* y = params.y.As<float>() + row * width;
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) {
        squares += static_cast<double>(x[i]) * x[i];
      }
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + params.eps);
      for (int64_t i = 0; i < width; ++i) {
        const double weight = params.weight.empty() ? 1.0 : params.weight.As<float>()[i];
        y[i] = static_cast<float>(weight * x[i] * inverse);
      }
    }
  });
}

}  // namespace cachalot::cpu
