#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {
namespace {

TEST(GatherRows, TakesRowsInOrderAndMayRepeatThem) {
  ProblemData data(1);
  Context context(2, Isa::kRef);
  GatherRowsParams params{data.Floats({3, 1, 2}, {1, 2, 3, 4, 5, 6}), data.Ints({4}, {2, 0, 0, 1}),
                          data.Unwritten(DType::kF32, {4, 1, 2})};
  GatherRows(params, context);
  EXPECT_EQ(ValuesOf({"", params.dst, {}}), (std::vector<float>{5, 6, 1, 2, 1, 2, 3, 4}));
}

TEST(GatherRowsDeathTest, RefusesRowsThatAreNotThere) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  GatherRowsParams params{data.Normal({3, 2}), data.Ints({2}, {2, 3}),
                          data.Unwritten(DType::kF32, {2, 2})};
  EXPECT_DEATH(GatherRows(params, context), "rows\\[1\\] is 3, expected 0 to 2");
  params.rows = data.Ints({1}, {0});
  EXPECT_DEATH(GatherRows(params, context), "into dst \\[2, 2\\]");
}

}  // namespace
}  // namespace cachalot::cpu
