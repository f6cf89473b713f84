#include <cmath>

#include "backends/cpu/ops/hc_head/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(HcHead, "hc_head")

TEST(HcHead, WeighsTheStreams) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  HcHeadParams params;
  params.x = data.Floats({1, 2, 2}, {1, 1, 1, -1});  // its mean square is one
  params.fn = data.Floats({2, 4}, {1, 0, 0, 0, 0, 0, 0, 2});
  params.base = data.Floats({2}, {0.5F, 0});
  params.scale = data.Floats({1}, {3});
  params.hc_eps = 0.25;
  params.y = data.Unwritten(DType::kF32, {1, 2});
  HcHead(params, context);
  const double first = 1 / (1 + std::exp(-3.5)) + 0.25;
  const double second = 1 / (1 + std::exp(6.0)) + 0.25;
  EXPECT_NEAR(params.y.As<float>()[0], first + second, 1e-6);
  EXPECT_NEAR(params.y.As<float>()[1], first - second, 1e-6);
}

TEST(HcHeadDeathTest, RefusesOtherShapes) {
  const auto made = HcHeadProblems()[3].Make();
  Context context(1, Isa::kRef);
  HcHeadParams params = made->params;
  params.scale = params.base;
  EXPECT_DEATH(HcHead(params, context), "scale is \\[4\\], expected \\[1\\]");
  params = made->params;
  params.y = params.x.Rows(0, 1).Reshaped({4, 128}).Rows(0, 3);
  EXPECT_DEATH(HcHead(params, context), "y and x overlap");
}

}  // namespace
}  // namespace cachalot::cpu
