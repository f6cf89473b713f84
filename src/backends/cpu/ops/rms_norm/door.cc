#include "backends/cpu/ops/door.h"

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void RmsNorm(const RmsNormParams& params, Context& context) {
  const Shape& shape = params.x.shape;
  CACHALOT_CHECK_GE(shape.rank(), 1);
  CACHALOT_CHECK(params.y.shape == shape, "y is {}, expected {}", params.y.shape.ToString(),
                 shape.ToString());
  CACHALOT_CHECK(params.x.dtype == DType::kF32 && params.y.dtype == DType::kF32);
  if (!params.weight.empty()) {
    CheckTensor(params.weight, DType::kF32, {shape[shape.rank() - 1]}, "weight");
  }
  RunFirst(RmsNormVariants(), params, context);
}

}  // namespace cachalot::cpu
