#include "backends/cpu/ops/hc_head/problems.h"

#include <fmt/format.h>

namespace cachalot::cpu {

std::vector<Problem<HcHeadParams>> HcHeadProblems() {
  struct Spec {
    int64_t tokens;
    int64_t streams;
    int64_t width;
  };
  const Spec specs[] = {{0, 4, 64}, {1, 4, 4096}, {1, 1, 1},  {3, 4, 128},
                        {5, 2, 36}, {17, 4, 130}, {2, 3, 50}, {1, 4, 7168}};
  std::vector<Problem<HcHeadParams>> problems;
  for (const Spec& spec : specs) {
    const std::string name =
        fmt::format("{} tokens, {} streams of {}", spec.tokens, spec.streams, spec.width);
    problems.push_back({name, "", [spec](Case<HcHeadParams>& made) {
                          ProblemData& data = made.data;
                          HcHeadParams& params = made.params;
                          params.x = data.Normal({spec.tokens, spec.streams, spec.width}, 2);
                          params.fn = data.Normal({spec.streams, spec.streams * spec.width}, 0.02);
                          params.base = data.Normal({spec.streams});
                          params.scale = data.Normal({1}, 0.2, 1);
                          params.rms_eps = 1e-6;
                          params.hc_eps = 1e-6;
                          params.y = data.Unwritten(DType::kF32, {spec.tokens, spec.width});
                          made.tokens = spec.tokens;
                          made.outputs = {{"y", params.y, {}}};
                        }});
  }
  return problems;
}

HcHeadParams Slice(const HcHeadParams& params, int64_t begin, int64_t end, ProblemData&) {
  HcHeadParams part = params;
  part.x = params.x.Rows(begin, end);
  part.y = params.y.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
