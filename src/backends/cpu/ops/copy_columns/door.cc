#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void CopyColumns(const CopyColumnsParams& params, Context& context) {
  CheckTensor(params.src, DType::kF32, {-1, -1}, "src");
  CheckTensor(params.dst, DType::kF32, {params.src.shape[0], -1}, "dst");
  CACHALOT_CHECK(params.column >= 0 && params.column + params.src.shape[1] <= params.dst.shape[1],
                 "{} columns from {} do not fit in {}", params.src.shape[1], params.column,
                 params.dst.shape[1]);
  CheckApart(params.dst, params.src, "dst and src");
  RunFirst(CopyColumnsVariants(), params, context);
}

}  // namespace cachalot::cpu
