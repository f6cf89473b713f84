#include "backends/cpu/ops/hc_pre/problems.h"

#include <fmt/format.h>

#include <initializer_list>

namespace cachalot::cpu {
namespace {

struct Spec {
  int64_t tokens;
  int64_t streams;
  int64_t width;
};

std::vector<Problem<HcPreParams>> ProblemsOf(std::initializer_list<Spec> specs) {
  std::vector<Problem<HcPreParams>> problems;
  for (const Spec& spec : specs) {
    const std::string name =
        fmt::format("{} tokens, {} streams of {}", spec.tokens, spec.streams, spec.width);
    problems.push_back({name, "", [spec](Case<HcPreParams>& made) {
                          ProblemData& data = made.data;
                          HcPreParams& params = made.params;
                          const int64_t hc = spec.streams;
                          const int64_t mixes = (2 + hc) * hc;
                          params.x = data.Normal({spec.tokens, hc, spec.width}, 2);
                          params.fn = data.Normal({mixes, hc * spec.width}, 0.02);
                          params.base = data.Normal({mixes});
                          params.scale = data.Normal({3}, 0.2, 1);
                          params.rms_eps = 1e-6;
                          params.hc_eps = 1e-6;
                          params.sinkhorn_iters = 20;
                          params.y = data.Unwritten(DType::kF32, {spec.tokens, spec.width});
                          params.post = data.Unwritten(DType::kF32, {spec.tokens, hc});
                          params.comb = data.Unwritten(DType::kF32, {spec.tokens, hc, hc});
                          made.tokens = spec.tokens;
                          made.outputs = {{"y", params.y, {}},
                                          {"post", params.post, {}},
                                          {"comb", params.comb, {}}};
                        }});
  }
  return problems;
}

}  // namespace

std::vector<Problem<HcPreParams>> HcPreProblems() {
  return ProblemsOf({{0, 4, 64},
                     {1, 4, 4096},
                     {1, 1, 1},
                     {3, 4, 128},
                     {5, 2, 36},
                     {17, 4, 130},
                     {2, 3, 50},
                     {2047, 4, 8},
                     {2048, 4, 8},
                     {2049, 4, 8},
                     {1, 4, 7168}});
}

std::vector<Problem<HcPreParams>> LargeHcPreProblems() {
  return ProblemsOf({{1, 4, 4096}, {8, 4, 4096}, {512, 4, 4096}, {1, 4, 1024}, {512, 4, 1024}});
}

HcPreParams Slice(const HcPreParams& params, int64_t begin, int64_t end, ProblemData&) {
  HcPreParams part = params;
  part.x = params.x.Rows(begin, end);
  part.y = params.y.Rows(begin, end);
  part.post = params.post.Rows(begin, end);
  part.comb = params.comb.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
