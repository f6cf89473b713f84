// MoeGate and Experts.
#include "backends/ascend/ops/ops.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kSqrtSoftplus = 2;
constexpr double kGateEps = 1e-20;

// Of MoeInitRoutingV3 and its counterparts.
constexpr int64_t kDynamicInt8 = 1;
constexpr int64_t kCounts = 1;  // tokens of each expert, not their sums
constexpr int64_t kGatherIndex = 0;
constexpr int64_t kByRow = 2;  // the row index of MoeInitRoutingV3
// Of GroupedMatmul.
constexpr int64_t kOneOutput = 3;
constexpr int64_t kSplitRows = 0;

// The sizes of stacked experts: [E, 2 * I, d] and [E, d, I].
struct Stack {
  const ExpertWeights& first;
  int64_t experts;
  int64_t inner() const { return first.w1.rows; }
  int64_t width() const { return first.w1.cols; }

  View up() const {
    return View(first.w1.values.data, ACL_INT8, {experts, 2 * inner(), width()}).Nz().Transposed();
  }
  View down() const {
    return View(first.w2.values.data, ACL_INT8, {experts, width(), inner()}).Nz().Transposed();
  }
  View up_scales() const { return {first.w1.scales.data, ACL_FLOAT, {experts, 2 * inner()}}; }
  View down_scales() const {
    return {first.w2.scales.data, AclTypeOf(first.w2.scales.dtype), {experts, width()}};
  }
};

// w2's input in int8 from the I32 sums of w1 and w3: silu(g) * u with both clamped where there is a
// limit.
Quantised Activate(OpContext& context, const Stack& stack, Tensor sums, Tensor scales,
                   const Tensor* counts, double limit) {
  const Quantised hidden = {context.Scratch(DType::kI8, {sums.shape[0], stack.inner()}),
                            context.Scratch(DType::kF32, {sums.shape[0]})};
  const View groups = counts != nullptr ? View(*counts) : View();
  const View weight_scales =
      counts != nullptr ? stack.up_scales() : stack.up_scales().Reshaped({2 * stack.inner()});
  // The gate is the left half. The custom package says so by mode 1, the standard library by 2.
  const int64_t clamped = context.custom() ? 1 : 2;
  const auto activate = [&](const auto& op) {
    Call(context.stream, op, sums, weight_scales, scales, nullptr, nullptr, nullptr, groups, true,
         "dynamic", int64_t{ACL_INT8}, "rint", -1, limit > 0 ? clamped : 0, limit, 1.0, 0.0,
         hidden.values, hidden.scales);
  };
  if (context.custom()) {
    activate(context.symbols().DequantSwigluQuantCustom);
  } else {
    activate(context.symbols().DequantSwigluQuantOfficial);
  }
  return hidden;
}

void MultiplyGrouped(OpContext& context, const View& x, const View& weights, const View& scales,
                     const View& row_scales, Tensor counts, Tensor y) {
  Call(context.stream, context.symbols().GroupedMatmulWeightNz, x, weights, nullptr, scales,
       nullptr, nullptr, nullptr, row_scales, counts, nullptr, nullptr, nullptr, kOneOutput,
       kSplitRows, kCounts, 0, nullptr, 0, y, nullptr, nullptr);
}

// The shared expert of all tokens, BF16 [T, d].
Tensor RunShared(OpContext& context, const ExpertsParams& params) {
  const Stack stack = {*params.shared, 1};
  const int64_t tokens = params.x.shape[0];
  const Quantised x = Quantise(context, params.x, tokens, stack.width());
  const Tensor sums = context.Scratch(DType::kI32, {tokens, 2 * stack.inner()});
  const View up = View(params.shared->w1.values.data, ACL_INT8, {2 * stack.inner(), stack.width()});
  const View down = View(params.shared->w2.values.data, ACL_INT8, {stack.width(), stack.inner()});
  Call(context.stream, context.symbols().QuantMatmulWeightNz, x.values, up.Nz(), nullptr,
       stack.up_scales().Reshaped({2 * stack.inner()}), nullptr, nullptr, nullptr, nullptr, nullptr,
       false, true, 0, sums);
  const Quantised hidden = Activate(context, stack, sums, x.scales, nullptr, params.limit);
  const Tensor y = context.Scratch(DType::kBf16, {tokens, stack.width()});
  Call(context.stream, context.symbols().QuantMatmulWeightNz, hidden.values, down.Nz(),
       hidden.scales, stack.down_scales().Reshaped({stack.width()}), nullptr, nullptr, nullptr,
       nullptr, nullptr, false, true, 0, y);
  return y;
}

}  // namespace

void RunMoeGate(OpContext& context, const MoeGateParams& params) {
  const int64_t tokens = params.x.shape[0];
  const int64_t chosen = params.experts.shape[1];
  const Tensor logits = context.Scratch(DType::kF32, {tokens, params.gate.rows});
  const Tensor scores = context.Scratch(DType::kF32, {tokens, params.gate.rows});
  Multiply(context, params.x, params.gate, logits);
  const bool hashed = !params.table.empty();
  const auto choose = [&](const auto& op) {
    Call(context.stream, op, logits, params.bias, hashed ? params.ids : Tensor(), params.table,
         chosen, 1, 1, 0, 1, kSqrtSoftplus, false, params.route_scale, kGateEps, params.weights,
         params.experts, scores);
  };
  if (context.custom()) {
    choose(context.symbols().MoeGatingTopKHash);
  } else {
    choose(context.symbols().MoeGatingTopKV2);
  }
}

void RunExperts(OpContext& context, const ExpertsParams& params) {
  const Stack stack = {params.routed[0], static_cast<int64_t>(params.routed.size())};
  CACHALOT_CHECK(params.routed[0].w1.format == MatrixFormat::kInt8Channel, "experts in {}",
                 NameOf(params.routed[0].w1.format));
  const int64_t tokens = params.x.shape[0];
  const int64_t rows = tokens * params.experts.shape[1];
  const Tensor x = context.Scratch(DType::kI8, {rows, stack.width()});
  const Tensor scales = context.Scratch(DType::kF32, {rows});
  const Tensor places = context.Scratch(DType::kI32, {rows});
  const Tensor counts = context.Scratch(DType::kI64, {stack.experts});
  Call(context.stream, context.symbols().MoeInitRoutingV3, params.x, params.experts, nullptr,
       nullptr, rows, 0, stack.experts, 0, kCounts, true, kDynamicInt8, Ints{0, stack.experts},
       kGatherIndex, x, places, counts, scales);
  const Tensor sums = context.Scratch(DType::kI32, {rows, 2 * stack.inner()});
  MultiplyGrouped(context, x, stack.up(), View(), View(), counts, sums);
  const Quantised hidden = Activate(context, stack, sums, scales, &counts, params.limit);
  const Tensor out = context.Scratch(DType::kBf16, {rows, stack.width()});
  MultiplyGrouped(context, hidden.values, stack.down(), stack.down_scales(), hidden.scales, counts,
                  out);
  Tensor shared;
  if (params.shared != nullptr) {
    shared = RunShared(context, params);
  }
  Call(context.stream, context.symbols().MoeFinalizeRoutingV2, out, places, shared, nullptr,
       nullptr, params.weights, nullptr, kByRow, params.y);
}

}  // namespace cachalot::ascend
