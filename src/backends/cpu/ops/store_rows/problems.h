#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<StoreRowsParams>> StoreRowsProblems();
// The same for tokens [begin, end) alone.
StoreRowsParams Slice(const StoreRowsParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
