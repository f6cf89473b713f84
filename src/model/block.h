// One layer: attention and experts, each between the hyper-connections' pre and post.
#pragma once

#include "cache/pools.h"
#include "checkpoint/weights.h"
#include "model/step.h"

namespace cachalot {

// x [T, hc, d] in place.
void RunBlock(const Step& step, const BlockWeights& weights, const LayerCache& cache, Tensor x);

// The mean-free end of the model: streams x [M, hc, d] -> collapsed [M, d], before the final norm.
void RunHcHead(const Step& step, const HeadWeights& weights, Tensor x, Tensor collapsed);

// collapsed [M, d] -> logits F32 [M, V].
void RunLogits(const Step& step, const HeadWeights& weights, const Matrix& lm_head,
               Tensor collapsed, Tensor logits);

}  // namespace cachalot
