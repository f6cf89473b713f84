#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<MoeGateParams>> MoeGateProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<MoeGateParams>> LargeMoeGateProblems();
// The same for tokens [begin, end) alone.
MoeGateParams Slice(const MoeGateParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
