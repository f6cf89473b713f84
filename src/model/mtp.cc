#include "model/mtp.h"

#include "model/block.h"

namespace cachalot {

void RunMtp(const Step& step, const MtpWeights& weights, const Matrix& embed,
            const LayerCache& cache, Tensor streams, Tensor z) {
  const Workspace::Scope scope(step.workspace);
  const ModelConfig& config = step.config;
  const int64_t t = step.num_tokens();
  const int64_t d = config.hidden_size;

  const Tensor e = step.Take({t, d});
  step.stream.Embedding({.ids = step.batch.ids, .table = embed, .y = e});
  step.stream.RmsNorm({.x = e, .weight = weights.enorm, .y = e, .eps = config.rms_eps});
  const Tensor e_projected = step.Take({t, d});
  step.stream.Linear({.x = e, .w = weights.e_proj, .y = e_projected});

  const Tensor h = step.Take({t, config.hc_mult, d});
  step.stream.RmsNorm({.x = streams, .weight = weights.hnorm, .y = h, .eps = config.rms_eps});
  step.stream.Linear({.x = h.Reshaped({t * config.hc_mult, d}),
                      .w = weights.h_proj,
                      .y = z.Reshaped({t * config.hc_mult, d})});
  step.stream.BroadcastStreams({.x = e_projected, .y = z, .accumulate = true});
  RunBlock(step, weights.block, cache, z);
}

}  // namespace cachalot
