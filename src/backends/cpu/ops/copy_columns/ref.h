#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefCopyColumns(const CopyColumnsParams& params, Context& context);

}  // namespace cachalot::cpu
