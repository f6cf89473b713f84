#include "backends/ascend/ops/ops.h"

namespace cachalot::ascend {

void Normalise(OpContext& context, Tensor x, Tensor gamma, double eps, Tensor y) {
  const Tensor rstd = context.Scratch(DType::kF32, {x.shape[0], 1});
  Call(context.stream, context.symbols().RmsNorm, x, gamma, eps, y, rstd);
}

void RunRmsNorm(OpContext& context, const RmsNormParams& params) {
  const int64_t width = params.x.shape[params.x.shape.rank() - 1];
  const Shape rows = {params.x.num_elements() / width, width};
  const Tensor gamma = params.weight.empty() ? context.constants.Ones(width) : params.weight;
  // The operator does not work in place.
  const bool in_place = params.y.data == params.x.data;
  const Tensor y = in_place ? context.Scratch(params.y.dtype, rows) : params.y.Reshaped(rows);
  Normalise(context, params.x.Reshaped(rows), gamma, params.eps, y);
  if (in_place) {
    context.stream.Copy(y, params.y.Reshaped(rows));
  }
}

}  // namespace cachalot::ascend
