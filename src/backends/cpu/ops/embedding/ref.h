#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefEmbedding(const EmbeddingParams& params, Context& context);

}  // namespace cachalot::cpu
