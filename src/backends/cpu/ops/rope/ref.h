#pragma once

#include <span>

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// Turns the last table.dim values of one row to `position`, or back; the compressor's reference
// shares it.
void RotateRow(std::span<double> row, const RopeTable& table, int64_t position, bool inverse);

void RefRope(const RopeParams& params, Context& context);

}  // namespace cachalot::cpu
