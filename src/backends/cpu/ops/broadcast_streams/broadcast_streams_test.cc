#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {
namespace {

TEST(BroadcastStreams, CopiesARowToEveryStreamOrAddsIt) {
  ProblemData data(1);
  Context context(2, Isa::kRef);
  BroadcastStreamsParams params{data.Floats({2, 2}, {1, 2, 3, 4}),
                                data.Unwritten(DType::kF32, {2, 3, 2})};
  BroadcastStreams(params, context);
  EXPECT_EQ(ValuesOf({"", params.y, {}}), (std::vector<float>{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}));
  params.accumulate = true;
  params.x = data.Floats({2, 2}, {10, 20, 30, 40});
  BroadcastStreams(params, context);
  EXPECT_EQ(ValuesOf({"", params.y, {}}),
            (std::vector<float>{11, 22, 11, 22, 11, 22, 33, 44, 33, 44, 33, 44}));
}

TEST(BroadcastStreamsDeathTest, RefusesRowsOfAnotherWidthAndSharedMemory) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  BroadcastStreamsParams params{data.Normal({2, 3}), data.Unwritten(DType::kF32, {2, 4, 2})};
  EXPECT_DEATH(BroadcastStreams(params, context), "y is \\[2, 4, 2\\], expected \\[2, -1, 3\\]");
  params.x = params.y.Rows(0, 1).Reshaped({4, 2}).Rows(0, 2);
  EXPECT_DEATH(BroadcastStreams(params, context), "y and x overlap");
}

}  // namespace
}  // namespace cachalot::cpu
