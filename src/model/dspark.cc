#include "model/dspark.h"

#include "model/attention.h"
#include "model/block.h"

namespace cachalot {

void StoreDsparkContext(const Step& step, const DsparkWeights& weights,
                        std::span<const LayerCache> caches, Tensor taps) {
  const Workspace::Scope scope(step.workspace);
  const Tensor main = step.Take({step.num_tokens(), step.config.hidden_size});
  step.stream.Linear({.x = taps, .w = weights.main_proj, .y = main});
  step.stream.RmsNorm(
      {.x = main, .weight = weights.main_norm, .y = main, .eps = step.config.rms_eps});
  for (size_t stage = 0; stage < weights.stages.size(); ++stage) {
    StoreWindowRows(step, weights.stages[stage].attn, /*ratio=*/0, caches[stage], main);
  }
}

void RunDsparkBlock(const Step& step, const DsparkWeights& weights, const Matrix& embed,
                    const Matrix& lm_head, std::span<const LayerCache> caches, Tensor collapsed,
                    Tensor logits) {
  const Workspace::Scope scope(step.workspace);
  const int64_t t = step.num_tokens();
  const Tensor e = step.Take({t, step.config.hidden_size});
  const Tensor x = step.Take({t, step.config.hc_mult, step.config.hidden_size});
  step.stream.Embedding({.ids = step.batch.ids, .table = embed, .y = e});
  step.stream.BroadcastStreams({.x = e, .y = x});
  for (size_t stage = 0; stage < weights.stages.size(); ++stage) {
    RunBlock(step, weights.stages[stage], caches[stage], x);
  }
  RunHcHead(step, weights.head, x, collapsed);
  RunLogits(step, weights.head, lm_head, collapsed, logits);
}

void AddMarkovTerm(const Step& step, const DsparkWeights& weights, Tensor previous,
                   Tensor collapsed, Tensor logits, Tensor confidence) {
  const Workspace::Scope scope(step.workspace);
  const int64_t d = step.config.hidden_size;
  const int64_t rank = weights.markov_w1.cols;
  const Tensor e = step.Take({1, rank});
  step.stream.Embedding({.ids = previous, .table = weights.markov_w1, .y = e});
  step.stream.Linear({.x = e, .w = weights.markov_w2, .y = logits, .accumulate = true});
  const Tensor both = step.Take({1, d + rank});
  step.stream.CopyColumns({.src = collapsed, .dst = both, .column = 0});
  step.stream.CopyColumns({.src = e, .dst = both, .column = d});
  step.stream.Linear({.x = both, .w = weights.confidence_proj, .y = confidence});
}

}  // namespace cachalot
