#include "backends/cpu/ops/experts/problems.h"

#include <fmt/format.h>

#include <utility>

namespace cachalot::cpu {
namespace {

struct Spec {
  int64_t tokens;
  int64_t num_experts;
  int64_t chosen;
  int64_t hidden;
  int64_t inner;
  double limit = 10;
  bool alone = false;  // every token goes to the same experts
};

ExpertWeights Expert(ProblemData& data, MatrixFormat format, const Spec& spec) {
  return {data.Weight(format, spec.inner, spec.hidden),
          data.Weight(format, spec.hidden, spec.inner),
          data.Weight(format, spec.inner, spec.hidden)};
}

// The weights of a case, which its Params only point to.
using Layer = std::vector<ExpertWeights>;  // the shared expert last

void Fill(const Spec& spec, MatrixFormat routed, MatrixFormat shared, Layer& layer,
          Case<ExpertsParams>& made) {
  ProblemData& data = made.data;
  ExpertsParams& params = made.params;
  for (int64_t e = 0; e < spec.num_experts; ++e) {
    layer.push_back(Expert(data, routed, spec));
  }
  layer.push_back(Expert(data, shared, spec));
  params.routed = std::span(layer).first(static_cast<size_t>(spec.num_experts));
  params.shared = &layer.back();
  params.x = data.Normal({spec.tokens, spec.hidden});
  std::vector<int32_t> experts;
  auto chosen = data.Shuffled(spec.num_experts);
  for (int64_t t = 0; t < spec.tokens; ++t) {
    chosen = spec.alone ? chosen : data.Shuffled(spec.num_experts);
    experts.insert(experts.end(), chosen.begin(), chosen.begin() + spec.chosen);
  }
  params.experts = data.Ints({spec.tokens, spec.chosen}, experts);
  params.weights = data.Normal({spec.tokens, spec.chosen}, 0.05, 0.3);
  params.limit = spec.limit;
  params.y = data.Unwritten(DType::kF32, {spec.tokens, spec.hidden});
  made.tokens = spec.tokens;
  made.outputs = {{"y", params.y, {}}};
}

Problem<ExpertsParams> ProblemOf(const Spec& spec, MatrixFormat routed, MatrixFormat shared) {
  const std::string name =
      fmt::format("{} tokens, {} of {} {} experts, {} shared, {} by {}, limit {}{}", spec.tokens,
                  spec.chosen, spec.num_experts, NameOf(routed), NameOf(shared), spec.hidden,
                  spec.inner, spec.limit, spec.alone ? ", the same for all" : "");
  return {name, NameOf(routed), [spec, routed, shared](Case<ExpertsParams>& made) {
            Fill(spec, routed, shared, made.data.Keep<Layer>(), made);
          }};
}

}  // namespace

std::vector<Problem<ExpertsParams>> ExpertsProblems() {
  constexpr std::pair<MatrixFormat, MatrixFormat> kFormats[] = {
      {MatrixFormat::kFp4Block, MatrixFormat::kFp8Block},
      {MatrixFormat::kFp8Block, MatrixFormat::kFp8Block},
      {MatrixFormat::kBf16, MatrixFormat::kBf16},
      {MatrixFormat::kInt8Channel, MatrixFormat::kInt8Channel},
      {MatrixFormat::kF32, MatrixFormat::kF32},
  };
  const Spec specs[] = {
      {0, 4, 2, 64, 32},     {1, 4, 2, 64, 32},        {2, 8, 6, 128, 96},
      {5, 4, 3, 160, 64, 0}, {17, 8, 2, 64, 160, 0.5}, {3, 2, 1, 1024, 32},
      {1, 1, 1, 4096, 32},   {2, 1, 1, 32, 2048},      {70, 3, 2, 64, 32, 10, true},
  };
  std::vector<Problem<ExpertsParams>> problems;
  for (const auto& [routed, shared] : kFormats) {
    for (const Spec& spec : specs) {
      problems.push_back(ProblemOf(spec, routed, shared));
    }
  }
  return problems;
}

// As many experts as a step of V4-Flash or of the small shape reads, not as many as they have: what
// is not read costs nothing.
std::vector<Problem<ExpertsParams>> LargeExpertsProblems() {
  std::vector<Problem<ExpertsParams>> problems;
  for (const int64_t tokens : {1, 8, 512}) {
    problems.push_back(ProblemOf({tokens, tokens == 1 ? 6 : 32, 6, 4096, 2048},
                                 MatrixFormat::kFp4Block, MatrixFormat::kFp8Block));
    problems.push_back(
        ProblemOf({tokens, 64, 6, 1024, 512}, MatrixFormat::kFp4Block, MatrixFormat::kFp8Block));
  }
  return problems;
}

ExpertsParams Slice(const ExpertsParams& params, int64_t begin, int64_t end, ProblemData&) {
  ExpertsParams part = params;
  part.x = params.x.Rows(begin, end);
  part.experts = params.experts.Rows(begin, end);
  part.weights = params.weights.Rows(begin, end);
  part.y = params.y.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
