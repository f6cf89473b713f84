#include "backends/cpu/ops/copy_columns/ref.h"

#include <cstring>

namespace cachalot::cpu {

void RefCopyColumns(const CopyColumnsParams& params, Context& context) {
  const int64_t from = params.src.shape[1];
  const int64_t to = params.dst.shape[1];
  if (from == 0) {
    return;
  }
  context.pool().ParallelFor(params.src.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      std::memcpy(params.dst.As<float>() + t * to + params.column,
                  params.src.As<float>() + t * from, static_cast<size_t>(from) * sizeof(float));
    }
  });
}

}  // namespace cachalot::cpu
