// HcPre, HcPost and HcHead.
#include "backends/ascend/ops/ops.h"

namespace cachalot::ascend {

void RunHcPre(OpContext& context, const HcPreParams& params) {
  const int64_t tokens = params.x.shape[0];
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  if (context.custom()) {
    Call(context.stream, context.symbols().HcPre, params.x, params.fn, params.scale, params.base,
         streams, params.sinkhorn_iters, params.hc_eps, params.rms_eps, params.y, params.post,
         params.comb);
    return;
  }
  const Tensor pre = context.Scratch(DType::kF32, {1, tokens, streams});
  const View none = View::Empty(ACL_FLOAT);  // outputs for a way back
  Call(context.stream, context.symbols().MhcPreSinkhorn,
       params.x.Reshaped({1, tokens, streams, width}), params.fn, params.scale, params.base,
       streams, params.sinkhorn_iters, params.hc_eps, params.rms_eps, false,
       params.y.Reshaped({1, tokens, width}), params.post.Reshaped({1, tokens, streams}),
       params.comb.Reshaped({1, tokens, streams * streams}), pre, none, none, none, none);
}

void RunHcPost(OpContext& context, const HcPostParams& params) {
  const int64_t tokens = params.x.shape[0];
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  // The operators do not work in place.
  const Tensor x = context.Scratch(params.x.dtype, params.x.shape);
  if (context.custom()) {
    Call(context.stream, context.symbols().HcPost, params.y, params.x, params.post, params.comb, x);
  } else {
    const Shape shape = {1, tokens, streams, width};
    Call(context.stream, context.symbols().MhcPost, params.x.Reshaped(shape),
         params.comb.Reshaped({1, tokens, streams, streams}), params.y.Reshaped({1, tokens, width}),
         params.post.Reshaped({1, tokens, streams}), x.Reshaped(shape));
  }
  context.stream.Copy(x, params.x);
}

// No operator has it: the norm comes first, so that the product needs no scale for each row.
void RunHcHead(OpContext& context, const HcHeadParams& params) {
  const SymbolTable& symbols = context.symbols();
  const int64_t tokens = params.x.shape[0];
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  const Shape flat = {tokens, streams * width};
  const Shape mixes = {tokens, streams};
  const Tensor x = context.Scratch(DType::kF32, flat);
  const Tensor normed = context.Scratch(DType::kF32, flat);
  Call(context.stream, symbols.Cast, params.x.Reshaped(flat), ACL_FLOAT, x);
  const Tensor ones = context.Scratch(DType::kF32, {flat[1]});
  Call(context.stream, symbols.Cast, context.constants.Ones(flat[1]), ACL_FLOAT, ones);
  Normalise(context, x, ones, params.rms_eps, normed);

  const Tensor mix = context.Scratch(DType::kF32, mixes);
  const Tensor scaled = context.Scratch(DType::kF32, mixes);
  const Tensor shifted = context.Scratch(DType::kF32, mixes);
  const Tensor gate = context.Scratch(DType::kF32, mixes);
  const Tensor pre = context.Scratch(DType::kF32, mixes);
  Call(context.stream, symbols.Matmul, normed, View(params.fn).Transposed(), mix, 0);
  Call(context.stream, symbols.Mul, mix, params.scale, scaled);
  Call(context.stream, symbols.Add, scaled, params.base, 1.0F, shifted);
  Call(context.stream, symbols.Sigmoid, shifted, gate);
  Call(context.stream, symbols.Add, gate, ones.Rows(0, 1), static_cast<float>(params.hc_eps), pre);

  const Tensor weighted = context.Scratch(DType::kF32, {tokens, streams, width});
  const Tensor sum = context.Scratch(DType::kF32, {tokens, width});
  Call(context.stream, symbols.Mul, x.Reshaped({tokens, streams, width}),
       pre.Reshaped({tokens, streams, 1}), weighted);
  Call(context.stream, symbols.ReduceSum, weighted, Ints{1}, false, ACL_FLOAT, sum);
  Call(context.stream, symbols.Cast, sum, ACL_BF16, params.y);
}

}  // namespace cachalot::ascend
