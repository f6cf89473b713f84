#include <cmath>
#include <limits>

#include "backends/ascend/ops/ops.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kRatio = 4;
constexpr int64_t kCausal = 3;
constexpr int64_t kInt8Heads = 2;  // int8 with a scale for each token and head

// The weights of heads with the scales of the score, F16 [T, heads].
Tensor HeadWeights(OpContext& context, const IndexerParams& params) {
  const int64_t heads = params.q.shape[1];
  const auto width = static_cast<double>(params.q.shape[2]);
  const auto scale = static_cast<float>(1 / std::sqrt(width * static_cast<double>(heads)));
  Tensor weights = params.weights;
  if (weights.dtype != DType::kF32) {
    weights = context.Scratch(DType::kF32, params.weights.shape);
    Call(context.stream, context.symbols().Cast, params.weights, ACL_FLOAT, weights);
  }
  const Tensor scaled = context.Scratch(DType::kF32, weights.shape);
  const Tensor half = context.Scratch(DType::kF16, weights.shape);
  Call(context.stream, context.symbols().Muls, weights, scale, scaled);
  Call(context.stream, context.symbols().Cast, scaled, ACL_FLOAT16, half);
  return half;
}

}  // namespace

void RunIndexer(OpContext& context, const IndexerParams& params) {
  const int64_t tokens = params.q.shape[0];
  const int64_t heads = params.q.shape[1];
  const int64_t width = params.q.shape[2];
  const IndexRowsInt8 q = QuantiseIndexRows(context, params.q.Reshaped({tokens * heads, width}));
  const Tensor q_values = q.values.Reshaped(params.q.shape);
  const Tensor q_scales = q.scales.Reshaped({tokens, heads});
  const Tensor weights = HeadWeights(context, params);
  const IndexPlanes planes = PlanesOf(params.keys);
  const int64_t pages = planes.values.dims[0];
  const int64_t page_rows = planes.values.dims[1];
  const int64_t stride = planes.values.strides[0];
  const int64_t scale_stride = planes.scales.strides[0];
  const View keys =
      View(planes.values.data, ACL_INT8, {pages, page_rows, 1, width}).WithStride(0, stride);
  const View selected = View(params.selected).Reshaped({tokens, 1, params.top_k});
  const StepFields& f = context.step.fields();
  const StepBuffers& step = context.step;
  if (context.custom()) {
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    Call(context.stream, context.symbols().QuantLightningIndexer, q_values, keys, weights, q_scales,
         planes.scales, step.Ints(f.query_ends), step.Ints(f.kv_lengths), params.pages,
         step.Ints(f.index_schedule), 0, 0, "TND", "PA_BSND", params.top_k, kCausal, kAll, kAll,
         kRatio, false, stride, scale_stride, selected, View::Empty(ACL_FLOAT));
    return;
  }
  Call(context.stream, context.symbols().QuantLightningIndexerV2, q_values, keys, weights, q_scales,
       planes.scales, step.Ints(f.query_starts), nullptr, nullptr, step.Ints(f.c4.lengths),
       step.Ints(f.c4.residual), params.pages, nullptr, step.Ints(f.index_schedule), params.top_k,
       kInt8Heads, f.most_tokens, "TND", "PA_BSND", kCausal, kRatio, 0, selected,
       View::Empty(ACL_BF16));
}

}  // namespace cachalot::ascend
