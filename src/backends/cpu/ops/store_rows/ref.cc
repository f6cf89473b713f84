#include "backends/cpu/ops/store_rows/ref.h"

namespace cachalot::cpu {

void RefStoreRows(const StoreRowsParams& params, Context& context) {
  const auto width = static_cast<size_t>(params.x.shape[1]);
  context.pool().ParallelFor(params.x.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* x = params.x.As<float>() + static_cast<size_t>(t) * width;
      EncodeRow(params.pool.layout, {x, width}, params.pool.row(params.slots.As<int32_t>()[t]));
    }
  });
}

}  // namespace cachalot::cpu
