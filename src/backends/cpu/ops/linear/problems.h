#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<LinearParams>> LinearProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<LinearParams>> LargeLinearProblems();
// The same for tokens [begin, end) alone.
LinearParams Slice(const LinearParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
