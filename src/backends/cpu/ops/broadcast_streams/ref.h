#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefBroadcastStreams(const BroadcastStreamsParams& params, Context& context);

}  // namespace cachalot::cpu
