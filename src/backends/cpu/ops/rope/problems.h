#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<RopeParams>> RopeProblems();
// The same for tokens [begin, end) alone.
RopeParams Slice(const RopeParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
