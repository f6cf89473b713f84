// The attention of one layer: low-rank queries, one latent key/value row per token, a window and
// compressed entries.
#pragma once

#include "cache/pools.h"
#include "checkpoint/weights.h"
#include "model/step.h"

namespace cachalot {

// x [T, d] after its norm -> y [T, d]. Stores the step's rows in the caches before it reads them.
void RunAttention(const Step& step, const AttentionWeights& weights, int64_t ratio,
                  const LayerCache& cache, Tensor x, Tensor y);

// The window rows alone: what a draft layer keeps of its context.
void StoreWindowRows(const Step& step, const AttentionWeights& weights, int64_t ratio,
                     const LayerCache& cache, Tensor x);

}  // namespace cachalot
