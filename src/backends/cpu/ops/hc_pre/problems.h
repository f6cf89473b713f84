#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<HcPreParams>> HcPreProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<HcPreParams>> LargeHcPreProblems();
// The same for tokens [begin, end) alone.
HcPreParams Slice(const HcPreParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
