// DSpark: three stages that draft a whole block of tokens at once from taps of the backbone's
// layers.
#pragma once

#include <span>

#include "cache/pools.h"
#include "checkpoint/weights.h"
#include "model/step.h"

namespace cachalot {

// Keeps the context of the stages for a step's tokens. taps [T, d * target layers]: the stream
// means of the target layers' outputs, side by side.
void StoreDsparkContext(const Step& step, const DsparkWeights& weights,
                        std::span<const LayerCache> caches, Tensor taps);

// Runs the stages over a block: step.batch holds the known token and noise after it, at the block's
// positions, every token of the block seeing the context and the whole block. collapsed [T, d],
// before the head's norm; logits F32 [T, V] without the Markov term.
void RunDsparkBlock(const Step& step, const DsparkWeights& weights, const Matrix& embed,
                    const Matrix& lm_head, std::span<const LayerCache> caches, Tensor collapsed,
                    Tensor logits);

// The Markov term of one draft position, after its previous token is known: logits += markov_w2
// markov_w1[previous]; confidence = confidence_proj (collapsed, markov_w1[previous]). previous I32
// [1], collapsed [1, d], logits F32 [1, V], confidence F32 [1, 1].
void AddMarkovTerm(const Step& step, const DsparkWeights& weights, Tensor previous,
                   Tensor collapsed, Tensor logits, Tensor confidence);

}  // namespace cachalot
