#include "backends/cpu/ops/rope/problems.h"

#include <fmt/format.h>

namespace cachalot::cpu {

std::vector<Problem<RopeParams>> RopeProblems() {
  struct Spec {
    Shape shape;
    int64_t dim;
    int64_t last_position;
    bool inverse;
  };
  const Spec specs[] = {
      {{0, 1, 64}, 64, 10, false},      {{1, 1, 64}, 64, 0, false},
      {{3, 1, 512}, 64, 200, false},    {{2, 64, 512}, 64, 5000, false},
      {{2, 64, 512}, 64, 5000, true},   {{5, 3, 32}, 8, 1000, false},
      {{17, 2, 128}, 64, 70000, true},  {{3, 5, 13}, 6, 100, false},
      {{2, 1, 6}, 2, 100, true},        {{3, 2, 128}, 64, 1048575, false},
      {{5, 2, 48}, 24, 1048575, false},
  };
  std::vector<Problem<RopeParams>> problems;
  for (const Spec& spec : specs) {
    problems.push_back({fmt::format("{} dim {} to position {}{}", spec.shape.ToString(), spec.dim,
                                    spec.last_position, spec.inverse ? " inverse" : ""),
                        "", [spec](Case<RopeParams>& made) {
                          RopeParams& params = made.params;
                          params.x = made.data.Normal(spec.shape);
                          std::vector<int32_t> positions;
                          for (int64_t t = 0; t < spec.shape[0]; ++t) {
                            positions.push_back(
                                static_cast<int32_t>(made.data.Between(0, spec.last_position)));
                          }
                          params.positions = made.data.Ints({spec.shape[0]}, positions);
                          params.table = made.data.Rope(spec.dim, 160000);
                          params.inverse = spec.inverse;
                          made.tokens = spec.shape[0];
                          made.outputs = {{"x", params.x, {}}};
                        }});
  }
  return problems;
}

RopeParams Slice(const RopeParams& params, int64_t begin, int64_t end, ProblemData&) {
  RopeParams part = params;
  part.x = params.x.Rows(begin, end);
  part.positions = params.positions.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
