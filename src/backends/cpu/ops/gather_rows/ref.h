#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefGatherRows(const GatherRowsParams& params, Context& context);

}  // namespace cachalot::cpu
