#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void Embedding(const EmbeddingParams& params, Context& context) {
  CheckTensor(params.ids, DType::kI32, {-1}, "ids");
  CACHALOT_CHECK(
      params.table.format == MatrixFormat::kBf16 || params.table.format == MatrixFormat::kF32,
      "table is {}, expected bf16 or f32", NameOf(params.table.format));
  CheckMatrix(params.table, -1, -1, "table");
  CheckTensor(params.y, DType::kF32, {params.ids.shape[0], params.table.cols}, "y");
  CheckIndices(params.ids, params.table.rows, "ids");
  RunFirst(EmbeddingVariants(), params, context);
}

}  // namespace cachalot::cpu
