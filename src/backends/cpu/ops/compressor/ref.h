#pragma once

#include <span>

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// row * H / sqrt(width), H the Sylvester matrix; the width is a power of two. The indexer's
// reference shares it.
void HadamardRow(std::span<double> row);

void RefCompressor(const CompressorParams& params, Context& context);

}  // namespace cachalot::cpu
