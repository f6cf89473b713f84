#include "backends/cpu/ops/linear/problems.h"

#include <fmt/format.h>

namespace cachalot::cpu {

std::vector<Problem<LinearParams>> LinearProblems() {
  struct Spec {
    int64_t tokens;
    int64_t rows;
    int64_t cols;
    int64_t groups = 1;
    bool accumulate = false;
    bool any_cols = false;  // columns that fp4 cannot have
  };
  const Spec specs[] = {
      {0, 8, 64},
      {1, 1, 32},
      {1, 130, 160},
      {2, 3, 96, 1, true},
      {3, 3, 4096},
      {5, 130, 128, 1, true},
      {17, 64, 512},
      {2, 24, 128, 4},
      {3, 12, 256, 2, true},
      {70, 66, 544},
      {1, 8, 7168},
      {130, 5, 64},
      {3, 5, 37, 1, false, true},
      {2, 6, 1, 3, false, true},
      {17, 9, 200, 1, true, true},
  };
  std::vector<Problem<LinearParams>> problems;
  for (const MatrixFormat format :
       {MatrixFormat::kF32, MatrixFormat::kBf16, MatrixFormat::kFp8Block, MatrixFormat::kFp4Block,
        MatrixFormat::kInt8Channel}) {
    for (const Spec& spec : specs) {
      if (spec.any_cols && format == MatrixFormat::kFp4Block) {
        continue;
      }
      const std::string name =
          fmt::format("{} tokens, {} [{}, {}] in {} groups{}", spec.tokens, NameOf(format),
                      spec.rows, spec.cols, spec.groups, spec.accumulate ? ", accumulating" : "");
      problems.push_back({name, NameOf(format), [spec, format](Case<LinearParams>& made) {
                            LinearParams& params = made.params;
                            params.x = made.data.Normal({spec.tokens, spec.groups * spec.cols});
                            params.w = made.data.Weight(format, spec.rows, spec.cols);
                            params.y = spec.accumulate ? made.data.Normal({spec.tokens, spec.rows})
                                                       : made.data.Unwritten(
                                                             DType::kF32, {spec.tokens, spec.rows});
                            params.groups = spec.groups;
                            params.accumulate = spec.accumulate;
                            made.tokens = spec.tokens;
                            made.outputs = {{"y", params.y, {}}};
                          }});
    }
  }
  return problems;
}

LinearParams Slice(const LinearParams& params, int64_t begin, int64_t end, ProblemData&) {
  LinearParams part = params;
  part.x = params.x.Rows(begin, end);
  part.y = params.y.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
