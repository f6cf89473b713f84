#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<HcPostParams>> HcPostProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<HcPostParams>> LargeHcPostProblems();
// The same for tokens [begin, end) alone.
HcPostParams Slice(const HcPostParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
