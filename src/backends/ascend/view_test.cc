#include "backends/ascend/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cachalot::ascend {
namespace {

using testing::ElementsAre;

std::vector<int64_t> Dims(const View& view) {
  return {view.dims.begin(), view.dims.begin() + view.rank};
}
std::vector<int64_t> Strides(const View& view) {
  return {view.strides.begin(), view.strides.begin() + view.rank};
}
std::vector<int64_t> Storage(const View& view) {
  return {view.storage.begin(), view.storage.begin() + view.storage_rank};
}

std::vector<float> values(24);

TEST(View, OfATensorIsDense) {
  const View view(Tensor{values.data(), DType::kF32, {2, 3, 4}});
  EXPECT_FALSE(view.absent());
  EXPECT_EQ(view.dtype, ACL_FLOAT);
  EXPECT_EQ(view.format, ACL_FORMAT_ND);
  EXPECT_EQ(view.data, values.data());
  EXPECT_THAT(Dims(view), ElementsAre(2, 3, 4));
  EXPECT_THAT(Strides(view), ElementsAre(12, 4, 1));
  EXPECT_THAT(Storage(view), ElementsAre(2, 3, 4));
  EXPECT_THAT(Strides(view.Reshaped({6, 4})), ElementsAre(4, 1));
}

TEST(View, OfAnEmptyTensorIsAbsentAndAnEmptyViewIsNot) {
  EXPECT_TRUE(View(Tensor()).absent());
  EXPECT_TRUE(View().absent());
  const View empty = View::Empty(ACL_INT32);
  EXPECT_FALSE(empty.absent());
  EXPECT_THAT(Dims(empty), ElementsAre(0));
}

TEST(View, TransposedReadsTheSameStorageTheOtherWay) {
  const View view = View(values.data(), ACL_BF16, {2, 3, 4}).Transposed();
  EXPECT_THAT(Dims(view), ElementsAre(2, 4, 3));
  EXPECT_THAT(Strides(view), ElementsAre(12, 1, 4));
  EXPECT_THAT(Storage(view), ElementsAre(2, 3, 4));
}

TEST(View, OfColumnsStandsWithinTheRows) {
  const View view = View(values.data(), ACL_FLOAT, {3, 8}).Columns(2, 7);
  EXPECT_THAT(Dims(view), ElementsAre(3, 5));
  EXPECT_THAT(Strides(view), ElementsAre(8, 1));
  EXPECT_EQ(view.offset, 2);
  EXPECT_THAT(Storage(view), ElementsAre(3, 8));
}

TEST(View, WithGapsEndsItsStorageAtTheLastElement) {
  const View view = View(values.data(), ACL_FLOAT, {3, 4}).WithStride(0, 10);
  EXPECT_THAT(Strides(view), ElementsAre(10, 1));
  EXPECT_THAT(Storage(view), ElementsAre(24));
}

// 16 rows by 32 bytes, columns of blocks one after the other, the last ones padded.
TEST(View, InBlocksNamesTheirNumberInTheStorage) {
  const View int8 = View(values.data(), ACL_INT8, {20, 70}).Nz();
  EXPECT_EQ(int8.format, ACL_FORMAT_FRACTAL_NZ);
  EXPECT_THAT(Dims(int8), ElementsAre(20, 70));
  EXPECT_THAT(Storage(int8), ElementsAre(3, 2, 16, 32));
  EXPECT_EQ(NzElements(ACL_INT8, 20, 70), 32 * 96);
  const View bf16 = View(values.data(), ACL_BF16, {5, 20, 70}).Nz();
  EXPECT_THAT(Storage(bf16), ElementsAre(5, 5, 2, 16, 16));
  EXPECT_THAT(Strides(bf16.Transposed()), ElementsAre(1400, 1, 70));
}

TEST(ViewDeathTest, RefusesWhatTheDeviceHasNot) {
  EXPECT_DEATH(View(Tensor{values.data(), DType::kF8E4M3, {4}}), "F8_E4M3");
  EXPECT_DEATH(View(values.data(), ACL_FLOAT, {2, 3}).Transposed().Reshaped({6}), "IsDense");
}

}  // namespace
}  // namespace cachalot::ascend
