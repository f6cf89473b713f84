#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefStreamMean(const StreamMeanParams& params, Context& context);

}  // namespace cachalot::cpu
