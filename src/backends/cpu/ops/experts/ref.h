#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefExperts(const ExpertsParams& params, Context& context);

}  // namespace cachalot::cpu
