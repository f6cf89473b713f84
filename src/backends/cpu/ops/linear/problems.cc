#include "backends/cpu/ops/linear/problems.h"

#include <fmt/format.h>

namespace cachalot::cpu {
namespace {

struct Spec {
  int64_t tokens;
  int64_t rows;
  int64_t cols;
  int64_t groups = 1;
  bool accumulate = false;
  bool any_cols = false;  // columns that fp4 cannot have
};

Problem<LinearParams> ProblemOf(const Spec& spec, MatrixFormat format) {
  const std::string name =
      fmt::format("{} tokens, {} [{}, {}] in {} groups{}", spec.tokens, NameOf(format), spec.rows,
                  spec.cols, spec.groups, spec.accumulate ? ", accumulating" : "");
  return {name, NameOf(format), [spec, format](Case<LinearParams>& made) {
            LinearParams& params = made.params;
            params.x = made.data.Normal({spec.tokens, spec.groups * spec.cols});
            params.w = made.data.Weight(format, spec.rows, spec.cols);
            params.y = spec.accumulate ? made.data.Normal({spec.tokens, spec.rows})
                                       : made.data.Unwritten(DType::kF32, {spec.tokens, spec.rows});
            params.groups = spec.groups;
            params.accumulate = spec.accumulate;
            made.tokens = spec.tokens;
            made.outputs = {{"y", params.y, {}}};
          }};
}

constexpr MatrixFormat kFormats[] = {MatrixFormat::kF32, MatrixFormat::kBf16,
                                     MatrixFormat::kFp8Block, MatrixFormat::kFp4Block,
                                     MatrixFormat::kInt8Channel};

}  // namespace

std::vector<Problem<LinearParams>> LinearProblems() {
  const Spec specs[] = {
      {0, 8, 64},
      {1, 1, 32},
      {1, 130, 160},
      {2, 3, 96, 1, true},
      {3, 3, 4096},
      {5, 130, 128, 1, true},
      {17, 64, 512},
      {13, 133, 1184, 1, true},
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
  for (const MatrixFormat format : kFormats) {
    for (const Spec& spec : specs) {
      if (!spec.any_cols || format != MatrixFormat::kFp4Block) {
        problems.push_back(ProblemOf(spec, format));
      }
    }
  }
  return problems;
}

std::vector<Problem<LinearParams>> LargeLinearProblems() {
  std::vector<Problem<LinearParams>> problems;
  for (const MatrixFormat format : kFormats) {
    for (const int64_t tokens : {1, 8, 128, 512}) {
      problems.push_back(ProblemOf({tokens, 4096, 4096}, format));
    }
  }
  // V4-Flash's queries, grouped outputs and gate of the compressor; a layer of the small shape.
  for (const int64_t tokens : {1, 512}) {
    problems.push_back(ProblemOf({tokens, 32768, 1024}, MatrixFormat::kFp8Block));
    problems.push_back(ProblemOf({tokens, 8192, 4096, 8}, MatrixFormat::kFp8Block));
    problems.push_back(ProblemOf({tokens, 1024, 4096}, MatrixFormat::kF32));
    problems.push_back(ProblemOf({tokens, 1024, 1024}, MatrixFormat::kFp8Block));
  }
  problems.push_back(ProblemOf({1, 32768, 1024}, MatrixFormat::kBf16));  // and its head
  return problems;
}

LinearParams Slice(const LinearParams& params, int64_t begin, int64_t end, ProblemData&) {
  LinearParams part = params;
  part.x = params.x.Rows(begin, end);
  part.y = params.y.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
