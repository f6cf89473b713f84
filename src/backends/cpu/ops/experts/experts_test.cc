#include <algorithm>
#include <cmath>
#include <functional>

#include "backends/cpu/ops/experts/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Experts, "experts")

double Product(const Matrix& w, int64_t row, const std::vector<double>& x) {
  double sum = 0;
  for (int64_t c = 0; c < w.cols; ++c) {
    sum += static_cast<double>(ElementOf(w, row, c)) * x[static_cast<size_t>(c)];
  }
  return sum;
}

// One token through one expert, element by element.
std::vector<double> Through(const ExpertWeights& expert, const std::vector<double>& x,
                            double weight, double limit) {
  std::vector<double> inner;
  for (int64_t row = 0; row < expert.w1.rows; ++row) {
    double g = Product(expert.w1, row, x);
    double u = Product(expert.w3, row, x);
    if (limit > 0) {
      g = g > limit ? limit : g;
      u = u > limit ? limit : (u < -limit ? -limit : u);
    }
    inner.push_back(weight * g / (1 + std::exp(-g)) * u);
  }
  std::vector<double> y;
  for (int64_t row = 0; row < expert.w2.rows; ++row) {
    y.push_back(Product(expert.w2, row, inner));
  }
  return y;
}

TEST(Experts, AddsTheChosenExpertsAndTheSharedOne) {
  for (const Problem<ExpertsParams>& problem : ExpertsProblems()) {
    SCOPED_TRACE(problem.name);
    const auto made = problem.Make();
    const ExpertsParams& params = made->params;
    Context context(2, Isa::kRef);
    Experts(params, context);
    const int64_t hidden = params.x.shape[1];
    const int64_t slots = params.experts.shape[1];
    for (int64_t t = 0; t < std::min<int64_t>(made->tokens, 3); ++t) {
      const float* row = params.x.As<float>() + t * hidden;
      const std::vector<double> x(row, row + hidden);
      std::vector<double> sum = Through(*params.shared, x, 1, params.limit);
      for (int64_t slot = t * slots; slot < (t + 1) * slots; ++slot) {
        const auto e = static_cast<size_t>(params.experts.As<int32_t>()[slot]);
        const auto y = Through(params.routed[e], x, params.weights.As<float>()[slot], params.limit);
        std::transform(sum.begin(), sum.end(), y.begin(), sum.begin(), std::plus<>());
      }
      ASSERT_LE(RelativeError({params.y.As<float>() + t * hidden, static_cast<size_t>(hidden)},
                              std::vector<float>(sum.begin(), sum.end())),
                1e-6)
          << "token " << t;
    }
  }
}

// Experts of one channel: y = w2 * silu(w1 x) * (w3 x).
ExpertWeights OneChannel(ProblemData& data, float w1, float w3, float w2) {
  const auto one = [&](float value) {
    return Matrix{MatrixFormat::kF32, 1, 1, data.Floats({1, 1}, {value}), {}};
  };
  return {one(w1), one(w2), one(w3)};
}

TEST(Experts, BoundsTheGateAboveAndTheOtherOnBothSides) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  const std::vector<ExpertWeights> routed = {OneChannel(data, 100, -100, 1),
                                             OneChannel(data, -100, 100, 1)};
  const ExpertWeights shared = OneChannel(data, 20, 1, 3);
  const auto run = [&](int32_t expert) {
    ExpertsParams params;
    params.x = data.Floats({1, 1}, {1});
    params.experts = data.Ints({1, 1}, {expert});
    params.weights = data.Floats({1, 1}, {0.5F});
    params.routed = routed;
    params.shared = &shared;
    params.limit = 10;
    params.y = data.Unwritten(DType::kF32, {1, 1});
    Experts(params, context);
    return static_cast<double>(params.y.As<float>()[0]);
  };
  const double silu = 10 / (1 + std::exp(-10.0));
  EXPECT_NEAR(run(0), 0.5 * silu * -10 + 3 * silu, 1e-5);
  EXPECT_NEAR(run(1), 3 * silu, 1e-5);  // silu(-100) is nothing
}

TEST(ExpertsDeathTest, RefusesExpertsThatDoNotFit) {
  const auto made = ExpertsProblems()[2].Make();
  Context context(1, Isa::kRef);
  ExpertsParams params = made->params;
  params.routed = params.routed.first(3);
  EXPECT_DEATH(Experts(params, context), "experts\\[[0-9]+\\] is [3-7], expected 0 to 2");
  params = made->params;
  params.shared = nullptr;
  EXPECT_DEATH(Experts(params, context), "none shared");
  params = made->params;
  std::vector<ExpertWeights> mixed(params.routed.begin(), params.routed.end());
  for (size_t e = 1; e < mixed.size(); ++e) {
    mixed[e] = *params.shared;
  }
  params.routed = mixed;
  EXPECT_DEATH(Experts(params, context), "is not all fp4");
  params = made->params;
  params.y = params.x;
  EXPECT_DEATH(Experts(params, context), "y and x overlap");
}

}  // namespace
}  // namespace cachalot::cpu
