#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefRmsNorm(const RmsNormParams& params, Context& context);

}  // namespace cachalot::cpu
