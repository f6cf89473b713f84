#include "model/block.h"

#include "model/attention.h"

namespace cachalot {
namespace {

struct SubLayer {
  Tensor input;  // activation [T, d]
  Tensor post;   // F32 [T, hc]
  Tensor comb;   // F32 [T, hc, hc]
};

// Collapses the streams into the normalised input of a sub-layer, and keeps the maps for the way
// back.
SubLayer Enter(const Step& step, const HyperConnectionWeights& weights, Tensor norm, Tensor x) {
  const ModelConfig& config = step.config;
  const int64_t t = step.num_tokens();
  const SubLayer layer = {step.Take({t, config.hidden_size}), step.TakeF32({t, config.hc_mult}),
                          step.TakeF32({t, config.hc_mult, config.hc_mult})};
  step.stream.HcPre({.x = x,
                     .fn = weights.fn,
                     .base = weights.base,
                     .scale = weights.scale,
                     .rms_eps = config.rms_eps,
                     .hc_eps = config.hc_eps,
                     .sinkhorn_iters = config.hc_sinkhorn_iters,
                     .y = layer.input,
                     .post = layer.post,
                     .comb = layer.comb});
  step.stream.RmsNorm({.x = layer.input, .weight = norm, .y = layer.input, .eps = config.rms_eps});
  return layer;
}

void RunMoe(const Step& step, const MoeWeights& weights, Tensor x, Tensor y) {
  const Workspace::Scope scope(step.workspace);
  const ModelConfig& config = step.config;
  const Tensor experts = step.TakeI32({step.num_tokens(), config.experts_per_token});
  const Tensor shares = step.TakeF32({step.num_tokens(), config.experts_per_token});
  step.stream.MoeGate({.x = x,
                       .gate = weights.gate,
                       .bias = weights.bias,
                       .table = weights.tid2eid,
                       .ids = step.batch.ids,
                       .route_scale = config.route_scale,
                       .experts = experts,
                       .weights = shares});
  step.stream.Experts({.x = x,
                       .experts = experts,
                       .weights = shares,
                       .routed = weights.experts,
                       .shared = &weights.shared,
                       .limit = config.swiglu_limit,
                       .y = y});
}

}  // namespace

void RunBlock(const Step& step, const BlockWeights& weights, const LayerCache& cache, Tensor x) {
  const Workspace::Scope scope(step.workspace);
  const Tensor y = step.Take({step.num_tokens(), step.config.hidden_size});

  const SubLayer attention = Enter(step, weights.hc_attn, weights.attn_norm, x);
  RunAttention(step, weights.attn, weights.ratio, cache, attention.input, y);
  step.stream.HcPost({.y = y, .post = attention.post, .comb = attention.comb, .x = x});

  const SubLayer moe = Enter(step, weights.hc_ffn, weights.ffn_norm, x);
  RunMoe(step, weights.ffn, moe.input, y);
  step.stream.HcPost({.y = y, .post = moe.post, .comb = moe.comb, .x = x});
}

void RunHcHead(const Step& step, const HeadWeights& weights, Tensor x, Tensor collapsed) {
  step.stream.HcHead({.x = x,
                      .fn = weights.hc.fn,
                      .base = weights.hc.base,
                      .scale = weights.hc.scale,
                      .rms_eps = step.config.rms_eps,
                      .hc_eps = step.config.hc_eps,
                      .y = collapsed});
}

void RunLogits(const Step& step, const HeadWeights& weights, const Matrix& lm_head,
               Tensor collapsed, Tensor logits) {
  const Workspace::Scope scope(step.workspace);
  const Tensor normed = step.Take({collapsed.shape[0], step.config.hidden_size});
  step.stream.RmsNorm(
      {.x = collapsed, .weight = weights.norm, .y = normed, .eps = step.config.rms_eps});
  step.stream.Linear({.x = normed, .w = lm_head, .y = logits});
}

}  // namespace cachalot
