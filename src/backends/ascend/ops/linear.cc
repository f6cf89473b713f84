#include "backends/ascend/ops/ops.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

// y = x w^T with int8 on both sides, in BF16 or I32.
void MultiplyInt8(OpContext& context, Tensor x, const Matrix& w, Tensor y) {
  const Quantised q = Quantise(context, x, x.shape[0], w.cols);
  const View weight = View(w.values.data, ACL_INT8, {w.rows, w.cols}).Nz();
  const bool rounds = y.dtype != DType::kBf16;
  const Tensor out = rounds ? context.Scratch(DType::kBf16, y.shape) : y;
  Call(context.stream, context.symbols().QuantMatmulWeightNz, q.values, weight, q.scales, w.scales,
       nullptr, nullptr, nullptr, nullptr, nullptr, false, true, 0, out);
  if (rounds) {
    Call(context.stream, context.symbols().Cast, out, AclTypeOf(y.dtype), y);
  }
}

void MultiplyBf16(OpContext& context, Tensor x, const Matrix& w, Tensor y) {
  // Products with results in F32 take rows alone; the placer knows which these are.
  if (y.dtype == DType::kF32) {
    Call(context.stream, context.symbols().FusedMatmul, x, View(w.values).Transposed(), nullptr,
         nullptr, "16cast32", 0, y);
  } else {
    Call(context.stream, context.symbols().MatmulWeightNz, x, View(w.values).Nz().Transposed(), y,
         0);
  }
}

// One product for each group, x and y with the groups side by side.
void MultiplyGroups(OpContext& context, Tensor x, const Matrix& w, int64_t groups, Tensor y) {
  CACHALOT_CHECK(w.format == MatrixFormat::kBf16, "{} groups of {} weights", groups,
                 NameOf(w.format));
  const int64_t tokens = x.shape[0];
  const int64_t rows = w.rows / groups;
  Call(context.stream, context.symbols().TransposeBatchMatMul, x.Reshaped({tokens, groups, w.cols}),
       w.values.Reshaped({groups, rows, w.cols}), nullptr, nullptr, Ints{1, 0, 2}, Ints{0, 2, 1},
       Ints{1, 0, 2}, 0, 1, y.Reshaped({tokens, groups, rows}));
}

}  // namespace

Quantised Quantise(OpContext& context, const View& x, int64_t rows, int64_t width) {
  const Quantised q = {context.Scratch(DType::kI8, {rows, width}),
                       context.Scratch(DType::kF32, {rows})};
  Call(context.stream, context.symbols().DynamicQuant, x, nullptr, q.values, q.scales);
  return q;
}

void Multiply(OpContext& context, Tensor x, const Matrix& w, Tensor y) {
  switch (w.format) {
    case MatrixFormat::kInt8Channel:
      return MultiplyInt8(context, x, w, y);
    case MatrixFormat::kBf16:
      return MultiplyBf16(context, x, w, y);
    case MatrixFormat::kF32:
    case MatrixFormat::kFp8Block:
    case MatrixFormat::kFp4Block:
      break;
  }
  CACHALOT_CHECK(false, "a product with {} weights", NameOf(w.format));
}

void RunLinear(OpContext& context, const LinearParams& params) {
  const Tensor y = params.accumulate ? context.Scratch(params.y.dtype, params.y.shape) : params.y;
  if (params.groups > 1) {
    MultiplyGroups(context, params.x, params.w, params.groups, y);
  } else {
    Multiply(context, params.x, params.w, y);
  }
  if (params.accumulate) {
    const Tensor sum = context.Scratch(params.y.dtype, params.y.shape);
    Call(context.stream, context.symbols().Add, params.y, y, 1.0F, sum);
    context.stream.Copy(sum, params.y);
  }
}

}  // namespace cachalot::ascend
