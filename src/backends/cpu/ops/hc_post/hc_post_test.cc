#include "backends/cpu/ops/hc_post/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(HcPost, "hc_post")

// The first index of comb is the source: what stands at [0][1] carries stream 0 to stream 1.
TEST(HcPost, ReadsTheMapBySource) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  HcPostParams params{data.Floats({1, 2}, {1, 2}), data.Floats({1, 2}, {10, 100}),
                      data.Floats({1, 2, 2}, {0, 3, 0, 0}), data.Floats({1, 2, 2}, {5, 6, 7, 8})};
  HcPost(params, context);
  EXPECT_EQ(ValuesOf({"", params.x, {}}), (std::vector<float>{10, 20, 115, 218}));
}

TEST(HcPostDeathTest, RefusesOtherShapesAndSharedMemory) {
  const auto made = HcPostProblems()[3].Make();
  Context context(1, Isa::kRef);
  HcPostParams params = made->params;
  params.post = params.post.Rows(0, 2);
  EXPECT_DEATH(HcPost(params, context), "post is \\[2, 4\\], expected \\[3, 4\\]");
  params = made->params;
  params.y = params.x.Rows(0, 1).Reshaped({4, 128}).Rows(0, 3);
  EXPECT_DEATH(HcPost(params, context), "x and y overlap");
}

}  // namespace
}  // namespace cachalot::cpu
