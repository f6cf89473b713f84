#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

void RefStoreRows(const StoreRowsParams& params, Context& context);

}  // namespace cachalot::cpu
