// `cachalot bench kernels`: a table of kernels with their times, limits and errors.
#pragma once

#include "backends/cpu/ops/kernel_bench.h"
#include "base/result.h"

namespace cachalot {

// kDataLoss, after the whole table, where an error is beyond its bound.
Status RunBenchKernels(const cpu::KernelBenchOptions& options, bool json);

}  // namespace cachalot
