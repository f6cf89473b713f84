#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefLinear(const LinearParams& params, Context& context);

}  // namespace cachalot::cpu
