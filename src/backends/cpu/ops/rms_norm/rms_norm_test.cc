#include "backends/cpu/ops/rms_norm/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(RmsNorm, "rms_norm")

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  RmsNormParams params;
  params.x = data.Floats({2, 2}, {3, 4, 0, 0});
  params.weight = data.Floats({2}, {1, -2});
  params.y = data.Unwritten(DType::kF32, {2, 2});
  params.eps = 1e-6;
  RmsNorm(params, context);
  EXPECT_FLOAT_EQ(params.y.As<float>()[0], 0.84852811F);
  EXPECT_FLOAT_EQ(params.y.As<float>()[1], -2.2627417F);
  EXPECT_EQ(params.y.As<float>()[2], 0);
  params.eps = 3.5;  // 3 / sqrt(12.5 + 3.5)
  RmsNorm(params, context);
  EXPECT_FLOAT_EQ(params.y.As<float>()[0], 0.75F);
}

TEST(RmsNormDeathTest, RefusesOtherShapesAndDtypes) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  RmsNormParams params;
  params.x = data.Normal({2, 4});
  params.y = data.Unwritten(DType::kF32, {2, 3});
  EXPECT_DEATH(RmsNorm(params, context), "y is \\[2, 3\\], expected \\[2, 4\\]");
  params.y = params.x;
  params.weight = data.Normal({3});
  EXPECT_DEATH(RmsNorm(params, context), "weight is \\[3\\], expected \\[4\\]");
  params.x.dtype = DType::kI32;
  EXPECT_DEATH(RmsNorm(params, context), "kF32");
}

}  // namespace
}  // namespace cachalot::cpu
