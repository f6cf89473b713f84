#include "backends/cpu/ops/rms_norm/problems.h"

#include <fmt/format.h>

#include <initializer_list>

namespace cachalot::cpu {
namespace {

struct Spec {
  Shape shape;
  bool weighted;
  bool in_place;
};

std::vector<Problem<RmsNormParams>> ProblemsOf(std::initializer_list<Spec> specs) {
  std::vector<Problem<RmsNormParams>> problems;
  for (const Spec& spec : specs) {
    problems.push_back(
        {fmt::format("{}{}{}", spec.shape.ToString(), spec.weighted ? " weighted" : "",
                     spec.in_place ? " in place" : ""),
         "", [spec](Case<RmsNormParams>& made) {
           ProblemData& data = made.data;
           RmsNormParams& params = made.params;
           params.x = data.Normal(spec.shape, 3, 0.5);
           const int64_t width = spec.shape[spec.shape.rank() - 1];
           if (spec.weighted) {
             params.weight = data.Normal({width}, 0.5, 1);
           }
           params.y = spec.in_place ? params.x : data.Unwritten(DType::kF32, spec.shape);
           params.eps = 1e-6;
           made.tokens = spec.shape[0];
           made.outputs = {{"y", params.y, {}}};
         }});
  }
  return problems;
}

}  // namespace

std::vector<Problem<RmsNormParams>> RmsNormProblems() {
  return ProblemsOf({
      {{0, 64}, true, false},
      {{1, 1}, true, false},
      {{3, 7}, true, false},
      {{5, 64}, true, false},
      {{17, 130}, true, true},
      {{2, 512}, false, false},
      {{3, 4, 512}, false, true},
      {{2, 4096}, true, false},
      {{1, 7168}, true, false},
      {{2, 3, 5, 31}, true, true},
      {{130, 16}, false, false},
  });
}

std::vector<Problem<RmsNormParams>> LargeRmsNormProblems() {
  return ProblemsOf({{{1, 4096}, true, true},
                     {{512, 4096}, true, true},
                     {{1, 64, 512}, false, true},
                     {{512, 64, 512}, false, true}});
}

RmsNormParams Slice(const RmsNormParams& params, int64_t begin, int64_t end, ProblemData&) {
  RmsNormParams part = params;
  part.x = params.x.Rows(begin, end);
  part.y = params.y.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
