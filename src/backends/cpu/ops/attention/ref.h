#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefAttention(const AttentionParams& params, Context& context);

}  // namespace cachalot::cpu
