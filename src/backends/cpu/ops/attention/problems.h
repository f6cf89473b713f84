#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<AttentionParams>> AttentionProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<AttentionParams>> LargeAttentionProblems();
// The same for tokens [begin, end) alone.
AttentionParams Slice(const AttentionParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
