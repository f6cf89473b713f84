#include "backends/cpu/ops/hc_post/problems.h"

#include <fmt/format.h>

#include <initializer_list>

namespace cachalot::cpu {
namespace {

struct Spec {
  int64_t tokens;
  int64_t streams;
  int64_t width;
};

std::vector<Problem<HcPostParams>> ProblemsOf(std::initializer_list<Spec> specs) {
  std::vector<Problem<HcPostParams>> problems;
  for (const Spec& spec : specs) {
    const std::string name =
        fmt::format("{} tokens, {} streams of {}", spec.tokens, spec.streams, spec.width);
    problems.push_back({name, "", [spec](Case<HcPostParams>& made) {
                          HcPostParams& params = made.params;
                          const int64_t hc = spec.streams;
                          params.y = made.data.Normal({spec.tokens, spec.width});
                          params.post = made.data.Normal({spec.tokens, hc}, 0.3, 1);
                          params.comb = made.data.Normal({spec.tokens, hc, hc}, 0.1, 0.25);
                          params.x = made.data.Normal({spec.tokens, hc, spec.width}, 2);
                          made.tokens = spec.tokens;
                          made.outputs = {{"x", params.x, {}}};
                        }});
  }
  return problems;
}

}  // namespace

std::vector<Problem<HcPostParams>> HcPostProblems() {
  return ProblemsOf({{0, 4, 64},
                     {1, 4, 4096},
                     {1, 1, 1},
                     {3, 4, 128},
                     {5, 2, 36},
                     {17, 4, 130},
                     {2, 3, 50},
                     {1, 4, 7168}});
}

std::vector<Problem<HcPostParams>> LargeHcPostProblems() {
  return ProblemsOf({{1, 4, 4096}, {8, 4, 4096}, {512, 4, 4096}, {1, 4, 1024}, {512, 4, 1024}});
}

HcPostParams Slice(const HcPostParams& params, int64_t begin, int64_t end, ProblemData&) {
  return {params.y.Rows(begin, end), params.post.Rows(begin, end), params.comb.Rows(begin, end),
          params.x.Rows(begin, end)};
}

}  // namespace cachalot::cpu
