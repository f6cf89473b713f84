#include "backends/cpu/ops/embedding/ref.h"

#include <cstring>

namespace cachalot::cpu {

void RefEmbedding(const EmbeddingParams& params, Context& context) {
  const Matrix& table = params.table;
  const int64_t width = table.cols;
  context.pool().ParallelFor(params.ids.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = params.ids.As<int32_t>()[t] * width;
      float* y = params.y.As<float>() + t * width;
      if (table.format == MatrixFormat::kF32) {
        std::memcpy(y, table.values.As<float>() + first,
                    static_cast<size_t>(width) * sizeof(float));
        continue;
      }
      const Bf16* row = table.values.As<Bf16>() + first;
      for (int64_t i = 0; i < width; ++i) {
        y[i] = Bf16ToFloat(row[i]);
      }
    }
  });
}

}  // namespace cachalot::cpu
