#include "backends/cpu/ops/moe_gate/problems.h"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <utility>

namespace cachalot::cpu {
namespace {

struct Spec {
  int64_t tokens;
  int64_t num_experts;
  int64_t hidden;
  int64_t chosen;
  MatrixFormat format;
  bool table = false;
  bool tied = false;  // experts in pairs with the same scores
};

constexpr int64_t kVocabulary = 50;

void Fill(const Spec& spec, Case<MoeGateParams>& made) {
  ProblemData& data = made.data;
  MoeGateParams& params = made.params;
  params.x = data.Normal({spec.tokens, spec.hidden}, 2);
  params.gate = data.Weight(spec.format, spec.num_experts, spec.hidden);
  if (spec.tied) {
    auto* rows = static_cast<uint8_t*>(params.gate.values.data);
    const int64_t bytes = params.gate.values.bytes() / spec.num_experts;
    for (int64_t e = 0; e + 1 < spec.num_experts; e += 2) {
      std::memcpy(rows + (e + 1) * bytes, rows + e * bytes, static_cast<size_t>(bytes));
    }
  }
  if (spec.table) {
    std::vector<int64_t> choices;
    for (int64_t id = 0; id < kVocabulary; ++id) {
      const auto experts = data.Shuffled(spec.num_experts);
      choices.insert(choices.end(), experts.begin(), experts.begin() + spec.chosen);
    }
    params.table = data.Longs({kVocabulary, spec.chosen}, choices);
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < spec.tokens; ++t) {
      ids.push_back(static_cast<int32_t>(data.Between(0, kVocabulary - 1)));
    }
    params.ids = data.Ints({spec.tokens}, ids);
  } else {
    params.bias = data.Normal({spec.num_experts}, spec.tied ? 0 : 0.1, 0.2);
  }
  params.route_scale = 1.5;
  params.experts = data.Unwritten(DType::kI32, {spec.tokens, spec.chosen});
  params.weights = data.Unwritten(DType::kF32, {spec.tokens, spec.chosen});
  made.tokens = spec.tokens;
  made.outputs = {{"experts", params.experts, {}}, {"weights", params.weights, {}}};
}

std::vector<Problem<MoeGateParams>> ProblemsOf(std::span<const Spec> specs) {
  std::vector<Problem<MoeGateParams>> problems;
  for (const Spec& spec : specs) {
    const std::string name =
        fmt::format("{} tokens, {} of {} experts, {} [{}]{}{}", spec.tokens, spec.chosen,
                    spec.num_experts, NameOf(spec.format), spec.hidden,
                    spec.table ? ", by table" : "", spec.tied ? ", tied" : "");
    problems.push_back(
        {name, NameOf(spec.format), [spec](Case<MoeGateParams>& made) { Fill(spec, made); }});
  }
  return problems;
}

}  // namespace

std::vector<Problem<MoeGateParams>> MoeGateProblems() {
  constexpr MatrixFormat kF32 = MatrixFormat::kF32;
  constexpr MatrixFormat kBf16 = MatrixFormat::kBf16;
  const Spec specs[] = {
      {0, 8, 64, 2, kBf16},
      {1, 8, 64, 2, kBf16},
      {3, 256, 4096, 6, kBf16},
      {2, 384, 512, 6, kBf16},
      {17, 13, 50, 3, kF32},
      {5, 6, 64, 6, kF32},
      {2, 1, 32, 1, kBf16},
      {70, 16, 128, 4, kBf16},
      {1, 256, 4096, 6, kBf16, true},
      {5, 8, 64, 2, kF32, true},
      {3, 32, 128, 5, kBf16, false, true},
  };
  return ProblemsOf(specs);
}

std::vector<Problem<MoeGateParams>> LargeMoeGateProblems() {
  std::vector<Spec> specs;
  for (const int64_t tokens : {1, 8, 512}) {
    specs.push_back({tokens, 256, 4096, 6, MatrixFormat::kBf16});
  }
  return ProblemsOf(specs);
}

MoeGateParams Slice(const MoeGateParams& params, int64_t begin, int64_t end, ProblemData&) {
  MoeGateParams part = params;
  part.x = params.x.Rows(begin, end);
  if (!params.ids.empty()) {
    part.ids = params.ids.Rows(begin, end);
  }
  part.experts = params.experts.Rows(begin, end);
  part.weights = params.weights.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
