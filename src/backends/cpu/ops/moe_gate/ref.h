#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefMoeGate(const MoeGateParams& params, Context& context);

}  // namespace cachalot::cpu
