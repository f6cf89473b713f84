#include <cmath>
#include <numeric>

#include "backends/cpu/ops/rope/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(Rope, "rope")

Tensor Rotated(ProblemData& data, const Tensor& x, const RopeTable& table, int32_t position,
               bool inverse = false) {
  Context context(1, Isa::kRef);
  const auto count = static_cast<size_t>(x.num_elements());
  const Tensor copy =
      data.Floats(x.shape, std::vector<float>(x.As<float>(), x.As<float>() + count));
  const auto tokens = static_cast<size_t>(x.shape[0]);
  Rope({copy, data.Ints({x.shape[0]}, std::vector<int32_t>(tokens, position)), table, inverse},
       context);
  return copy;
}

TEST(Rope, TurnsInterleavedPairsOfTheLastValues) {
  ProblemData data(1);
  const double kQuarter = std::acos(-1.0) / 2;
  const std::vector<double> frequencies = {kQuarter, kQuarter / 3};
  const Tensor x = data.Floats({1, 1, 6}, {7, 8, 1, 2, 1, 0});
  const Tensor turned = Rotated(data, x, {4, frequencies}, 1);
  const float wanted[] = {7, 8, -2, 1, 0.8660254F, 0.5F};
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(turned.As<float>()[i], wanted[i], 1e-6) << i;
  }
  EXPECT_NEAR(Rotated(data, x, {4, frequencies}, 3).As<float>()[4], 0, 1e-6);
  EXPECT_NEAR(Rotated(data, x, {4, frequencies}, 1, true).As<float>()[5], -0.5, 1e-6);
}

TEST(Rope, BackAndForthIsTheSame) {
  ProblemData data(1);
  const RopeTable table = data.Rope(64, 160000);
  const Tensor x = data.Normal({3, 2, 128});
  const Tensor back = Rotated(data, Rotated(data, x, table, 1000003), table, 1000003, true);
  EXPECT_LE(RelativeError(ValuesOf({"", back, {}}), ValuesOf({"", x, {}})), 1e-6);
}

TEST(Rope, ProductsDependOnTheDistanceAlone) {
  ProblemData data(1);
  const RopeTable table = data.Rope(64);
  const Tensor q = data.Normal({1, 1, 64});
  const Tensor k = data.Normal({1, 1, 64});
  const auto product = [&](int32_t at_q, int32_t at_k) {
    const Tensor a = Rotated(data, q, table, at_q);
    const Tensor b = Rotated(data, k, table, at_k);
    return std::inner_product(a.As<float>(), a.As<float>() + 64, b.As<float>(), 0.0);
  };
  EXPECT_NEAR(product(20, 3), product(100017, 100000), 1e-4);
  EXPECT_GT(std::fabs(product(20, 3) - product(21, 3)), 1e-3);
}

TEST(RopeDeathTest, RefusesTablesThatDoNotFit) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  RopeParams params{data.Normal({2, 1, 8}), data.Ints({2}, {0, 1}), data.Rope(16), false};
  EXPECT_DEATH(Rope(params, context), "a rope of 16 in rows of 8");
  params.table = data.Rope(8);
  params.table.dim = 6;
  EXPECT_DEATH(Rope(params, context), "4 against 3");
  params.table.dim = 8;
  params.positions = data.Ints({2}, {0, -1});
  EXPECT_DEATH(Rope(params, context), "positions\\[1\\] is -1");
}

}  // namespace
}  // namespace cachalot::cpu
