#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void GatherRows(const GatherRowsParams& params, Context& context) {
  const Shape& src = params.src.shape;
  const Shape& dst = params.dst.shape;
  CheckTensor(params.rows, DType::kI32, {-1}, "rows");
  CACHALOT_CHECK(params.src.dtype == DType::kF32 && params.dst.dtype == DType::kF32);
  bool fits = src.rank() >= 1 && dst.rank() == src.rank() && dst[0] == params.rows.shape[0];
  for (int axis = 1; fits && axis < src.rank(); ++axis) {
    fits = src[axis] == dst[axis];
  }
  CACHALOT_CHECK(fits, "{} rows of src {} into dst {}", params.rows.shape.ToString(),
                 src.ToString(), dst.ToString());
  CheckIndices(params.rows, src[0], "rows");
  CheckApart(params.dst, params.src, "dst and src");
  RunFirst(GatherRowsVariants(), params, context);
}

}  // namespace cachalot::cpu
