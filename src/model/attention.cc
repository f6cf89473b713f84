#include "model/attention.h"

namespace cachalot {
namespace {

// Compresses the step's tokens into entries of `pool`, with the token rows of unfinished groups in
// `state`.
void Compress(const Step& step, const CompressorWeights& weights, bool hadamard,
              const LayerCache& cache, Tensor state, RowPool pool, Tensor x) {
  const Workspace::Scope scope(step.workspace);
  const Batch& batch = step.batch;
  const bool overlapping = weights.ratio == 4;
  const Tensor kv = step.TakeF32({step.num_tokens(), weights.wkv.rows});
  const Tensor score = step.TakeF32({step.num_tokens(), weights.wgate.rows});
  step.stream.Compressor({
      .x = x,
      .wkv = weights.wkv,
      .wgate = weights.wgate,
      .kv = kv,
      .score = score,
      .ratio = weights.ratio,
      .ape = weights.ape,
      .norm = weights.norm,
      .rms_eps = step.config.rms_eps,
      .rope = step.rope.ForRatio(weights.ratio),
      .hadamard = hadamard,
      .requests = batch.requests,
      .state = state,
      .state_pages = overlapping ? batch.c4_state_pages : batch.c128_state_pages,
      .state_span = cache.state.state_span,
      .state_rows = cache.state.state_rows,
      .entry_slots = overlapping ? batch.c4_slots : batch.c128_slots,
      .pool = pool,
  });
}

// The entries that each token attends to: I32 [T, top_k].
void SelectEntries(const Step& step, const IndexerWeights& weights, const LayerCache& cache,
                   Tensor x, Tensor q_low, Tensor selected) {
  const ModelConfig& config = step.config;
  const int64_t t = step.num_tokens();
  Compress(step, weights.compressor, /*hadamard=*/true, cache, cache.state.index, cache.index_keys,
           x);
  const Workspace::Scope scope(step.workspace);
  const Tensor q = step.Take({t, config.index_heads * config.index_head_dim});
  const Tensor head_weights = step.TakeF32({t, config.index_heads});
  step.stream.Linear({.x = q_low, .w = weights.wq_b, .y = q});
  const Tensor q_heads = q.Reshaped({t, config.index_heads, config.index_head_dim});
  step.stream.Rope(
      {.x = q_heads, .positions = step.batch.positions, .table = step.rope.ForRatio(4)});
  step.stream.Linear({.x = x, .w = weights.weights_proj, .y = head_weights});
  step.stream.Indexer({
      .q = q_heads,
      .weights = head_weights,
      .keys = cache.index_keys,
      .pages = step.batch.c4_pages,
      .page_entries = cache.page_entries,
      .requests = step.batch.requests,
      .top_k = config.index_topk,
      .selected = selected,
  });
}

}  // namespace

void StoreWindowRows(const Step& step, const AttentionWeights& weights, int64_t ratio,
                     const LayerCache& cache, Tensor x) {
  const Workspace::Scope scope(step.workspace);
  const int64_t t = step.num_tokens();
  const int64_t width = step.config.head_dim;
  const Tensor kv = step.Take({t, width});
  step.stream.Linear({.x = x, .w = weights.wkv, .y = kv});
  step.stream.RmsNorm({.x = kv, .weight = weights.kv_norm, .y = kv, .eps = step.config.rms_eps});
  step.stream.Rope({.x = kv.Reshaped({t, 1, width}),
                    .positions = step.batch.positions,
                    .table = step.rope.ForRatio(ratio)});
  step.stream.StoreRows({.x = kv, .slots = step.batch.window_slots, .pool = cache.window});
}

void RunAttention(const Step& step, const AttentionWeights& weights, int64_t ratio,
                  const LayerCache& cache, Tensor x, Tensor y) {
  const Workspace::Scope scope(step.workspace);
  const ModelConfig& config = step.config;
  const Batch& batch = step.batch;
  const int64_t t = step.num_tokens();
  const RopeTable rope = step.rope.ForRatio(ratio);

  const Tensor q_low = step.Take({t, config.q_lora_rank});
  step.stream.Linear({.x = x, .w = weights.wq_a, .y = q_low});
  step.stream.RmsNorm({.x = q_low, .weight = weights.q_norm, .y = q_low, .eps = config.rms_eps});
  const Tensor q = step.Take({t, config.num_heads * config.head_dim});
  step.stream.Linear({.x = q_low, .w = weights.wq_b, .y = q});
  const Tensor q_heads = q.Reshaped({t, config.num_heads, config.head_dim});
  step.stream.RmsNorm({.x = q_heads, .weight = {}, .y = q_heads, .eps = config.rms_eps});
  step.stream.Rope({.x = q_heads, .positions = batch.positions, .table = rope});

  StoreWindowRows(step, weights, ratio, cache, x);
  if (ratio > 0) {
    Compress(step, *weights.compressor, /*hadamard=*/false, cache, cache.state.attn, cache.entries,
             x);
  }
  Tensor selected;
  if (ratio == 4) {
    selected = step.TakeI32({t, config.index_topk});
    SelectEntries(step, *weights.indexer, cache, x, q_low, selected);
  }

  const Tensor o = step.Take({t, config.num_heads, config.head_dim});
  step.stream.Attention({
      .q = q_heads,
      .sink = weights.sink,
      .requests = batch.requests,
      .window = cache.window,
      .window_pages = batch.window_pages,
      .window_page_rows = cache.window_page_rows,
      .key_begin = batch.key_begin,
      .key_end = batch.key_end,
      .ratio = ratio,
      .entries = cache.entries,
      .entry_pages = ratio == 4 ? batch.c4_pages : batch.c128_pages,
      .page_entries = cache.page_entries,
      .selected = selected,
      .o = o,
  });
  step.stream.Rope({.x = o, .positions = batch.positions, .table = rope, .inverse = true});

  const Tensor low = step.Take({t, config.o_groups * config.o_lora_rank});
  step.stream.Linear({.x = o.Reshaped({t, config.num_heads * config.head_dim}),
                      .w = weights.wo_a,
                      .y = low,
                      .groups = config.o_groups});
  step.stream.Linear({.x = low, .w = weights.wo_b, .y = y});
}

}  // namespace cachalot
