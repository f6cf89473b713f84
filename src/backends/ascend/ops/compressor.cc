// Compressor: by the vendor's operator of that name, or composed from plain ones; then the entries go
// to their rows, index keys through the Hadamard matrix and in int8.
#include "backends/ascend/ops/ops.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kPagedState = 1;
constexpr int64_t kStateRows = 2;  // a table of rows
constexpr int64_t kInterleaved = 2;

bool IsPaged(const CompressorParams& params) { return params.state_span == params.state_rows; }

int64_t Overlap(const CompressorParams& params) { return params.ratio == 4 ? 2 : 1; }

const CompressionFields& FieldsOf(const OpContext& context, const CompressorParams& params) {
  const StepFields& fields = context.step.fields();
  const CompressionFields& c = params.ratio == 4 ? fields.c4 : fields.c128;
  CACHALOT_CHECK(c.ratio == params.ratio, "compression by {} in a step without it", params.ratio);
  return c;
}

// Rows [begin, begin + count) of the middle axis of [N, rows, width].
View MiddleRows(View view, int64_t begin, int64_t count) {
  view.offset += begin * view.strides[1];
  view.dims[1] = count;
  return view;
}

// Entries with norm and rope, BF16 [N, W].
Tensor CompressCustom(OpContext& context, const CompressorParams& params,
                      const CompressionFields& c) {
  const StepFields& fields = context.step.fields();
  const int64_t width = params.state.shape[1];
  const View state =
      View(params.state)
          .Reshaped({params.state.shape[0] / params.state_rows, params.state_rows, width});
  const Tensor entries = context.Scratch(DType::kBf16, {c.cos.shape[0], params.pool.layout.width});
  Call(context.stream, context.symbols().CompressorCustom, params.x, params.wkv.values,
       params.wgate.values, state, params.ape, params.norm, context.step.Floats(c.sin),
       context.step.Floats(c.cos),
       IsPaged(params) ? params.state_pages : context.step.Ints(c.state_rows),
       context.step.Ints(fields.query_starts), context.step.Ints(fields.new_tokens),
       context.step.Ints(fields.start_pos), params.rope.dim, params.ratio, Overlap(params),
       params.rms_eps, kInterleaved, IsPaged(params) ? kPagedState : kStateRows,
       params.state_rows * width, entries);
  return entries;
}

// Entries as they are pooled, BF16 [N, W].
Tensor CompressOfficial(OpContext& context, const CompressorParams& params,
                        const CompressionFields& c) {
  const StepFields& fields = context.step.fields();
  const int64_t width = params.state.shape[1];
  const View state =
      View(params.state)
          .Reshaped({params.state.shape[0] / params.state_rows, params.state_rows, width});
  const Tensor entries = context.Scratch(DType::kBf16, {c.cos.shape[0], params.pool.layout.width});
  Call(context.stream, context.symbols().CompressorOfficial, params.x, params.wkv.values,
       params.wgate.values, state, params.ape, params.state_pages,
       context.step.Ints(fields.query_starts), context.step.Ints(fields.new_tokens),
       context.step.Ints(fields.start_pos), params.ratio, Overlap(params), kPagedState,
       params.state_rows * width, false, entries, View::Empty(ACL_FLOAT), View::Empty(ACL_FLOAT));
  return entries;
}

// The rows that the step's entries pool: those of the state before each request's new tokens, then
// the new tokens' own, F32 [B * c * r + T, 2 * c * W]. The new ones are left in the state.
Tensor TokenRows(OpContext& context, const CompressorParams& params, const CompressionFields& c) {
  const SymbolTable& symbols = context.symbols();
  const int64_t tokens = params.x.shape[0];
  const int64_t channels = params.kv.shape[1];
  const int64_t history = c.history.shape[0];
  const Tensor rows = context.Scratch(DType::kF32, {history + tokens, 2 * channels});
  Call(context.stream, symbols.Embedding, params.state, context.step.Ints(c.history),
       rows.Rows(0, history));
  Multiply(context, params.x, params.wkv, params.kv);
  Multiply(context, params.x, params.wgate, params.score);
  const Tensor ape = context.Scratch(DType::kF32, params.score.shape);
  Call(context.stream, symbols.Embedding, params.ape, context.step.Ints(c.ape_rows), ape);
  const Tensor score = context.Scratch(DType::kF32, params.score.shape);
  Call(context.stream, symbols.Add, params.score, ape, 1.0F, score);
  const Tensor fresh = rows.Rows(history, history + tokens);
  Call(context.stream, symbols.InplaceCopy, View(fresh).Columns(0, channels), params.kv);
  Call(context.stream, symbols.InplaceCopy, View(fresh).Columns(channels, 2 * channels), score);
  const View slots = View(context.step.Ints(c.kept_rows)).Reshaped({tokens, 1});
  if (context.custom()) {
    Call(context.stream, symbols.ScatterNdUpdateV2, params.state, slots, fresh,
         Ints{2 * channels, 1});
  } else {
    Call(context.stream, symbols.ScatterNdUpdate, params.state, slots, fresh);
  }
  return rows;
}

// Softmax over each entry's rows, channel by channel: entries as they are pooled, F32 [N, W].
Tensor PoolRows(OpContext& context, const CompressorParams& params, const CompressionFields& c,
                Tensor token_rows) {
  const SymbolTable& symbols = context.symbols();
  const int64_t entries = c.cos.shape[0];
  const int64_t width = params.pool.layout.width;
  const int64_t overlap = Overlap(params);
  const int64_t pooled = overlap * params.ratio;
  const int64_t channels = overlap * width;
  const Tensor picked = context.Scratch(DType::kF32, {entries * pooled, 2 * channels});
  Call(context.stream, symbols.Embedding, token_rows, context.step.Ints(c.entry_rows), picked);
  const View rows = View(picked).Reshaped({entries, pooled, 2 * channels});
  const Shape shape = {entries, pooled, width};
  const Tensor kv = context.Scratch(DType::kF32, shape);
  const Tensor score = context.Scratch(DType::kF32, shape);
  const Tensor share = context.Scratch(DType::kF32, shape);
  const Tensor product = context.Scratch(DType::kF32, shape);
  // With overlap the group before gives its first channels, this one its last.
  for (int64_t part = 0; part < overlap; ++part) {
    const int64_t first = part * params.ratio;
    const int64_t channel = part * width;
    const View from = MiddleRows(rows, first, params.ratio);
    Call(context.stream, symbols.InplaceCopy, MiddleRows(kv, first, params.ratio),
         from.Columns(channel, channel + width));
    Call(context.stream, symbols.InplaceCopy, MiddleRows(score, first, params.ratio),
         from.Columns(channels + channel, channels + channel + width));
  }
  Call(context.stream, symbols.Softmax, score, 1, share);
  Call(context.stream, symbols.Mul, share, kv, product);
  const Tensor sum = context.Scratch(DType::kF32, {entries, width});
  Call(context.stream, symbols.ReduceSum, product, Ints{1}, false, ACL_FLOAT, sum);
  return sum;
}

// Norm and rope: BF16 [N, W].
Tensor FinishEntries(OpContext& context, const CompressorParams& params, const CompressionFields& c,
                     Tensor pooled) {
  const Shape shape = pooled.shape;
  Tensor gamma = params.norm;
  if (gamma.dtype != pooled.dtype) {
    gamma = context.Scratch(pooled.dtype, params.norm.shape);
    Call(context.stream, context.symbols().Cast, params.norm, AclTypeOf(pooled.dtype), gamma);
  }
  Tensor entries = context.Scratch(pooled.dtype, shape);
  Normalise(context, pooled, gamma, params.rms_eps, entries);
  if (entries.dtype != DType::kBf16) {
    const Tensor rounded = context.Scratch(DType::kBf16, shape);
    Call(context.stream, context.symbols().Cast, entries, ACL_BF16, rounded);
    entries = rounded;
  }
  Rotate(context, entries.Reshaped({shape[0], 1, shape[1]}), context.step.Floats(c.cos),
         context.step.Floats(c.sin));
  return entries;
}

}  // namespace

IndexRowsInt8 QuantiseIndexRows(OpContext& context, Tensor rows) {
  const int64_t count = rows.shape[0];
  const int64_t width = rows.shape[1];
  const Tensor turned = context.Scratch(DType::kBf16, rows.shape);
  Call(context.stream, context.symbols().Matmul, rows, context.constants.Hadamard(width), turned,
       0);
  const Quantised q = Quantise(context, turned, count, width);
  const Tensor scales = context.Scratch(DType::kF16, {count});
  Call(context.stream, context.symbols().Cast, q.scales, ACL_FLOAT16, scales);
  return {q.values, scales};
}

void RunCompressor(OpContext& context, const CompressorParams& params) {
  const CompressionFields& c = FieldsOf(context, params);
  Tensor entries;
  if (context.options.fused_compressor && context.custom()) {
    entries = CompressCustom(context, params, c);
  } else if (context.options.fused_compressor && IsPaged(params)) {
    entries = FinishEntries(context, params, c, CompressOfficial(context, params, c));
  } else {
    const Tensor rows = TokenRows(context, params, c);
    entries = FinishEntries(context, params, c, PoolRows(context, params, c, rows));
  }
  const Tensor slots = context.step.Ints(c.slots);
  if (!params.hadamard) {
    ScatterRows(context, PagesOf(params.pool, c.page_entries), slots, entries);
    return;
  }
  const IndexRowsInt8 keys = QuantiseIndexRows(context, entries);
  const IndexPlanes planes = PlanesOf(params.pool);
  ScatterRows(context, planes.values, slots, keys.values);
  ScatterRows(context, planes.scales, slots, keys.scales.Reshaped({keys.scales.shape[0], 1}));
}

}  // namespace cachalot::ascend
