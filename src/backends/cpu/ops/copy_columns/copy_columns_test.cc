#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/problem.h"

namespace cachalot::cpu {
namespace {

TEST(CopyColumns, WritesItsColumnsAndNoOther) {
  ProblemData data(1);
  Context context(2, Isa::kRef);
  CopyColumnsParams params{data.Floats({2, 2}, {1, 2, 3, 4}),
                           data.Floats({2, 4}, std::vector<float>(8, 9)), 1};
  CopyColumns(params, context);
  EXPECT_EQ(ValuesOf({"", params.dst, {}}), (std::vector<float>{9, 1, 2, 9, 9, 3, 4, 9}));
}

TEST(CopyColumnsDeathTest, RefusesColumnsBeyondTheRow) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  CopyColumnsParams params{data.Normal({2, 2}), data.Normal({2, 4}), 3};
  EXPECT_DEATH(CopyColumns(params, context), "2 columns from 3 do not fit in 4");
  params.column = -1;
  EXPECT_DEATH(CopyColumns(params, context), "2 columns from -1");
}

}  // namespace
}  // namespace cachalot::cpu
