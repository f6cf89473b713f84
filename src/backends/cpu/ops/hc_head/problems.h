#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<HcHeadParams>> HcHeadProblems();
// The same for tokens [begin, end) alone.
HcHeadParams Slice(const HcHeadParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
