#include <algorithm>

#include "backends/cpu/ops/hc_pre/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(HcPre, "hc_pre")

// One row of ones over four streams of width 1: the mixes are the first column of fn, but for the
// epsilon of the mean.
TEST(HcPre, GivesThePublishedMixes) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  std::vector<float> fn(24 * 4);
  for (int i = 0; i < 8; ++i) {
    fn[static_cast<size_t>(4 * i)] = 0.1F * static_cast<float>(i) - 1.2F;
  }
  for (int j = 0; j < 4; ++j) {
    for (int k = 0; k < 4; ++k) {
      fn[static_cast<size_t>(4 * (8 + 4 * j + k))] =
          static_cast<float>(0.3 * j * k - 0.2 * j + 0.1 * k);
    }
  }
  HcPreParams params;
  params.x = data.Floats({1, 4, 1}, {1, 1, 1, 1});
  params.fn = data.Floats({24, 4}, fn);
  params.base = data.Floats({24}, std::vector<float>(24));
  params.scale = data.Floats({3}, {1, 0.5F, 2});
  params.rms_eps = 1e-6;
  params.hc_eps = 1e-6;
  params.sinkhorn_iters = 20;
  params.y = data.Unwritten(DType::kF32, {1, 1});
  params.post = data.Unwritten(DType::kF32, {1, 4});
  params.comb = data.Unwritten(DType::kF32, {1, 4, 4});
  HcPre(params, context);
  const double pre[] = {.2314762, .2497409, .2689424, .2890515};
  const double post[] = {.8026247, .8267648, .8511150, .8756470};
  const double first[] = {.5310365, .3080320, .1252395, .0356910};
  const double last[] = {.0357028, .1252360, .3080218, .5310384};
  EXPECT_NEAR(params.y.As<float>()[0], pre[0] + pre[1] + pre[2] + pre[3], 2e-6);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(params.post.As<float>()[i], post[i], 1e-6);
    EXPECT_NEAR(params.comb.As<float>()[i], first[i], 1e-6);
    EXPECT_NEAR(params.comb.As<float>()[12 + i], last[i], 1e-6);
    double column = 0;
    for (int j = 0; j < 4; ++j) {
      column += params.comb.As<float>()[4 * j + i];
    }
    EXPECT_NEAR(column, 1, 2e-6);
  }
}

// The input is scaled out of the mixes and stays in y.
TEST(HcPre, NormalisesTheMixesAndNotTheInput) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  HcPreParams params;
  const Tensor x = data.Normal({1, 2, 8});
  const Tensor scaled = data.Unwritten(DType::kF32, {1, 2, 8});
  std::transform(x.As<float>(), x.As<float>() + 16, scaled.As<float>(),
                 [](float value) { return 64 * value; });
  params.fn = data.Normal({8, 16});
  params.base = data.Normal({8});
  params.scale = data.Normal({3});
  params.hc_eps = 1e-6;
  params.sinkhorn_iters = 3;
  std::vector<std::vector<float>> seen;
  for (const Tensor& input : {x, scaled}) {
    params.x = input;
    params.y = data.Unwritten(DType::kF32, {1, 8});
    params.post = data.Unwritten(DType::kF32, {1, 2});
    params.comb = data.Unwritten(DType::kF32, {1, 2, 2});
    HcPre(params, context);
    seen.push_back(ValuesOf({"", params.comb, {}}));
    seen.push_back(ValuesOf({"", params.y, {}}));
  }
  EXPECT_LE(RelativeError(seen[2], seen[0]), 1e-6);
  for (float& value : seen[1]) {
    value *= 64;
  }
  EXPECT_LE(RelativeError(seen[3], seen[1]), 1e-6);
}

TEST(HcPreDeathTest, RefusesOtherShapes) {
  const auto made = HcPreProblems()[3].Make();
  Context context(1, Isa::kRef);
  HcPreParams params = made->params;
  params.fn = params.fn.Rows(0, 23);
  EXPECT_DEATH(HcPre(params, context), "fn is \\[23, 512\\], expected \\[24, 512\\]");
  params = made->params;
  params.comb = params.comb.Rows(0, 2);
  EXPECT_DEATH(HcPre(params, context), "comb is");
  params = made->params;
  params.sinkhorn_iters = 0;
  EXPECT_DEATH(HcPre(params, context), "0 iterations");
}

}  // namespace
}  // namespace cachalot::cpu
