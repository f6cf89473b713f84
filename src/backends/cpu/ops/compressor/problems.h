#pragma once

#include <vector>

#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {

// Sets x, its matrices, and kv and score [tokens, row_width] to their products, which are exact
// whatever the order of their sums: the variants begin where these are there.
void SetProducts(CompressorParams& params, int64_t tokens, int64_t row_width, ProblemData& data);

std::vector<Problem<CompressorParams>> CompressorProblems();
// The same for tokens [begin, end) alone.
CompressorParams Slice(const CompressorParams& params, int64_t begin, int64_t end,
                       ProblemData& data);

}  // namespace cachalot::cpu
