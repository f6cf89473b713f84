#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<RmsNormParams>> RmsNormProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<RmsNormParams>> LargeRmsNormProblems();
// The same for tokens [begin, end) alone.
RmsNormParams Slice(const RmsNormParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
