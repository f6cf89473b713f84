#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

std::vector<Problem<IndexerParams>> IndexerProblems();
// Of the size that models have: for benchmarks.
std::vector<Problem<IndexerParams>> LargeIndexerProblems();
// The same for tokens [begin, end) alone.
IndexerParams Slice(const IndexerParams& params, int64_t begin, int64_t end, ProblemData& data);

}  // namespace cachalot::cpu
