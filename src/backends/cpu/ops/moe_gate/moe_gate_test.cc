#include "backends/cpu/ops/moe_gate/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(MoeGate, "moe_gate")

// Logits -10, 0, 1 and 25 for four experts.
MoeGateParams FourExperts(ProblemData& data, int64_t chosen) {
  MoeGateParams params;
  params.x = data.Floats({1, 4}, {-10, 0, 1, 25});
  params.gate = {MatrixFormat::kF32,
                 4,
                 4,
                 data.Floats({4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}),
                 {}};
  params.bias = data.Floats({4}, {0, 0, 0, 0});
  params.route_scale = 2.5;
  params.experts = data.Unwritten(DType::kI32, {1, chosen});
  params.weights = data.Unwritten(DType::kF32, {1, chosen});
  return params;
}

TEST(MoeGate, WeighsByThePublishedScores) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  const MoeGateParams params = FourExperts(data, 4);
  MoeGate(params, context);
  EXPECT_EQ(ValuesOf({"", params.experts, {}}), (std::vector<float>{3, 2, 1, 0}));
  const double scores[] = {5, 1.14597630, .83255461, .00673787};
  const double sum = scores[0] + scores[1] + scores[2] + scores[3];
  for (int slot = 0; slot < 4; ++slot) {
    EXPECT_NEAR(params.weights.As<float>()[slot], scores[slot] / sum * 2.5, 1e-6);
  }
}

TEST(MoeGate, ChoosesByTheBiasAndWeighsWithoutIt) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  MoeGateParams params = FourExperts(data, 2);
  params.bias = data.Floats({4}, {10, 0, 0, 0});
  MoeGate(params, context);
  EXPECT_EQ(ValuesOf({"", params.experts, {}}), (std::vector<float>{0, 3}));
  EXPECT_NEAR(params.weights.As<float>()[0], .00673787 / 5.00673787 * 2.5, 1e-6);
  params.x = data.Floats({1, 4}, {1, 1, 1, 1});
  params.bias = data.Floats({4}, {0, 0, 1, 0});
  MoeGate(params, context);  // ties go to the lower expert
  EXPECT_EQ(ValuesOf({"", params.experts, {}}), (std::vector<float>{2, 0}));
}

TEST(MoeGate, FollowsTheTableInItsOrder) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  MoeGateParams params = FourExperts(data, 2);
  params.bias = {};
  params.table = data.Longs({3, 2}, {0, 1, 2, 3, 1, 3});
  params.ids = data.Ints({1}, {2});
  MoeGate(params, context);
  EXPECT_EQ(ValuesOf({"", params.experts, {}}), (std::vector<float>{1, 3}));
  EXPECT_NEAR(params.weights.As<float>()[0], .83255461 / 5.83255461 * 2.5, 1e-6);
  EXPECT_NEAR(params.weights.As<float>()[1], 5 / 5.83255461 * 2.5, 1e-6);
}

TEST(MoeGateDeathTest, RefusesTablesAndIdsThatDoNotFit) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  MoeGateParams params = FourExperts(data, 2);
  params.table = data.Longs({3, 2}, {0, 1, 2, 4, 1, 3});
  params.ids = data.Ints({1}, {1});
  EXPECT_DEATH(MoeGate(params, context), "either a bias or a table, found both");
  params.bias = {};
  EXPECT_DEATH(MoeGate(params, context), "the table sends id 1 to 4");
  params.ids = data.Ints({1}, {3});
  EXPECT_DEATH(MoeGate(params, context), "ids\\[0\\] is 3, expected 0 to 2");
  params = FourExperts(data, 5);
  EXPECT_DEATH(MoeGate(params, context), "5 of 4 experts");
}

}  // namespace
}  // namespace cachalot::cpu
