#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<CompressorParams>> CompressorProblems();
// The same for tokens [begin, end) alone.
CompressorParams Slice(const CompressorParams& params, int64_t begin, int64_t end,
                       ProblemData& data);

}  // namespace cachalot::cpu
