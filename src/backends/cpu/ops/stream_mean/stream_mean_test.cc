#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {
namespace {

TEST(StreamMean, AveragesOverTheStreams) {
  ProblemData data(1);
  Context context(2, Isa::kRef);
  StreamMeanParams params{data.Floats({2, 2, 3}, {1, 2, 3, 5, 6, 8, -1, 0, 1, 1, 0, -1}),
                          data.Unwritten(DType::kF32, {2, 3})};
  StreamMean(params, context);
  EXPECT_EQ(ValuesOf({"", params.y, {}}), (std::vector<float>{3, 4, 5.5F, 0, 0, 0}));
}

TEST(StreamMeanDeathTest, RefusesAnotherShape) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  StreamMeanParams params{data.Normal({2, 2, 3}), data.Unwritten(DType::kF32, {3, 3})};
  EXPECT_DEATH(StreamMean(params, context), "y is \\[3, 3\\], expected \\[2, 3\\]");
}

}  // namespace
}  // namespace cachalot::cpu
