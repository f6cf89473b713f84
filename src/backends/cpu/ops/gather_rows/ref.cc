#include "backends/cpu/ops/gather_rows/ref.h"

#include <cstring>

namespace cachalot::cpu {

void RefGatherRows(const GatherRowsParams& params, Context& context) {
  const int64_t count = params.rows.shape[0];
  const int64_t width = count > 0 ? params.dst.num_elements() / count : 0;
  if (width == 0) {
    return;
  }
  context.pool().ParallelFor(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = params.rows.As<int32_t>()[i];
      std::memcpy(params.dst.As<float>() + i * width, params.src.As<float>() + row * width,
                  static_cast<size_t>(width) * sizeof(float));
    }
  });
}

}  // namespace cachalot::cpu
