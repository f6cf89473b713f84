#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<HcPreParams>> HcPreProblems();
// The same for tokens [begin, end) alone.
HcPreParams Slice(const HcPreParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
