#include "backends/ascend/ops/ops.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kInterleaved = 1;  // pairs (2i, 2i + 1)

}  // namespace

void Rotate(OpContext& context, Tensor x, Tensor cos, Tensor sin) {
  const int64_t tokens = x.shape[0];
  const int64_t heads = x.shape[1];
  const int64_t width = x.shape[2];
  const int64_t dim = cos.shape[1];
  const View table_cos = View(cos).Reshaped({tokens, 1, 1, dim});
  const View table_sin = View(sin).Reshaped({tokens, 1, 1, dim});
  const View rows = View(x).Reshaped({tokens, 1, heads, width});
  if (context.custom()) {
    Call(context.stream, context.symbols().InplacePartialRotaryMul, rows, table_cos, table_sin,
         kInterleaved, Ints{width - dim, width});
    return;
  }
  // The standard operator turns whole rows out of place, in the dtype of its tables.
  const View tail = rows.Columns(width - dim, width);
  const Shape shape = {tokens, 1, heads, dim};
  const Tensor before = context.Scratch(DType::kF32, shape);
  const Tensor after = context.Scratch(DType::kF32, shape);
  const Tensor rounded = context.Scratch(x.dtype, shape);
  Call(context.stream, context.symbols().Cast, tail, ACL_FLOAT, before);
  Call(context.stream, context.symbols().RotaryPositionEmbedding, before, table_cos, table_sin,
       kInterleaved, after);
  Call(context.stream, context.symbols().Cast, after, AclTypeOf(x.dtype), rounded);
  Call(context.stream, context.symbols().InplaceCopy, tail, rounded);
}

void RunRope(OpContext& context, const RopeParams& params) {
  const RotaryFields* fields = context.step.RotaryOf(params.table);
  CACHALOT_CHECK(fields != nullptr, "a rope that the step's metadata has not named");
  const Tensor sin = context.step.Floats(params.inverse ? fields->minus_sin : fields->sin);
  Rotate(context, params.x, context.step.Floats(fields->cos), sin);
}

}  // namespace cachalot::ascend
