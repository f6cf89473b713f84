#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<ExpertsParams>> ExpertsProblems();
// The same for tokens [begin, end) alone.
ExpertsParams Slice(const ExpertsParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
