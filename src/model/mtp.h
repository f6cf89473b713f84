// The multi-token-prediction block: from a token's streams and the token after it, the logits of
// the one after that.
#pragma once

#include "cache/pools.h"
#include "checkpoint/weights.h"
#include "model/step.h"

namespace cachalot {

// step.batch holds the next tokens' ids at the positions of `streams` [T, hc, d], the model's
// streams before its head. z [T, hc, d] receives the block's own streams. The block keeps a window
// of its own in `cache`.
void RunMtp(const Step& step, const MtpWeights& weights, const Matrix& embed,
            const LayerCache& cache, Tensor streams, Tensor z);

}  // namespace cachalot
