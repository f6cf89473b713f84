#include "backends/cpu/ops/linear/ref.h"

#include <vector>

#include "backends/cpu/ops/matrix_rows.h"

namespace cachalot::cpu {

void RefLinear(const LinearParams& params, Context& context) {
  const Matrix& w = params.w;
  const int64_t tokens = params.x.shape[0];
  const int64_t rows_per_group = w.rows / params.groups;
  context.pool().ParallelFor(tokens > 0 ? w.rows : 0, [&](int64_t begin, int64_t end) {
    std::vector<double> weights(static_cast<size_t>(w.cols));
    for (int64_t row = begin; row < end; ++row) {
      DecodeMatrixRow(w, row, weights);
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t part = t * params.groups + row / rows_per_group;
        float& y = params.y.As<float>()[t * w.rows + row];
        const double before = params.accumulate ? y : 0.0;
        y = static_cast<float>(before + Dot(weights, params.x.As<float>() + part * w.cols));
      }
    }
  });
}

}  // namespace cachalot::cpu
