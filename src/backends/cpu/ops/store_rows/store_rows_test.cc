#include "backends/cpu/ops/store_rows/problems.h"
#include "backends/cpu/ops/variants_test.h"

namespace cachalot::cpu {
namespace {

CACHALOT_VARIANTS_TEST(StoreRows, "store_rows")

TEST(StoreRows, RoundsARowIntoItsSlotAndLeavesTheOthers) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  const RowLayout layout{RowFormat::kFp8Bf16, RowRounding::kFp8, 80, 16};
  const RowPool pool = data.Pool(layout, 4);
  const std::string before = BytesOf({"", {}, pool});
  std::vector<float> row(80, 3.49F);  // a scale of 2^-7: steps of 1/4 up to 3.5
  row[0] = 3.5F;
  row[70] = 1.003F;
  StoreRows({data.Floats({1, 80}, row), data.Ints({1}, {2}), pool}, context);
  std::vector<float> kept(80);
  DecodeRow(layout, pool.row(2), kept);
  EXPECT_EQ(kept[0], 3.5F);
  EXPECT_EQ(kept[1], 3.5F);
  EXPECT_EQ(kept[70], 1.0F);
  const std::string after = BytesOf({"", {}, pool});
  const auto bytes = static_cast<size_t>(layout.bytes());
  EXPECT_TRUE(after.substr(0, 2 * bytes) == before.substr(0, 2 * bytes));
  EXPECT_TRUE(after.substr(3 * bytes) == before.substr(3 * bytes));
}

TEST(StoreRowsDeathTest, RefusesSlotsAndPoolsThatDoNotFit) {
  ProblemData data(1);
  Context context(1, Isa::kRef);
  StoreRowsParams params{data.Normal({1, 32}), data.Ints({1}, {4}),
                         data.Pool({RowFormat::kFp4, RowRounding::kFp4, 32, 0}, 4)};
  EXPECT_DEATH(StoreRows(params, context), "slots\\[0\\] is 4, expected 0 to 3");
  params.x = data.Normal({1, 64});
  EXPECT_DEATH(StoreRows(params, context), "pool has rows of 32, expected 64");
  params.x = data.Normal({1, 32});
  params.pool.layout.rounding = RowRounding::kNone;
  EXPECT_DEATH(StoreRows(params, context), "pool: its format loses its rounding");
}

}  // namespace
}  // namespace cachalot::cpu
