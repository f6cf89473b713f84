#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<ExpertsParams>> ExpertsProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<ExpertsParams>> LargeExpertsProblems();
// The same for tokens [begin, end) alone.
ExpertsParams Slice(const ExpertsParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
