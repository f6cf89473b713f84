#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefIndexer(const IndexerParams& params, Context& context);

}  // namespace cachalot::cpu
