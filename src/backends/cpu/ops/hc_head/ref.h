#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefHcHead(const HcHeadParams& params, Context& context);

}  // namespace cachalot::cpu
