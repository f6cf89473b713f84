#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefHcPost(const HcPostParams& params, Context& context);

}  // namespace cachalot::cpu
