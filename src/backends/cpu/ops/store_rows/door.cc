#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void StoreRows(const StoreRowsParams& params, Context& context) {
  CheckTensor(params.x, DType::kF32, {-1, -1}, "x");
  CheckTensor(params.slots, DType::kI32, {params.x.shape[0]}, "slots");
  CheckPool(params.pool, params.x.shape[1], "pool");
  CheckIndices(params.slots, params.pool.num_rows, "slots");
  RunFirst(StoreRowsVariants(), params, context);
}

}  // namespace cachalot::cpu
