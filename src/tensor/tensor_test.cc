#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <array>

namespace cachalot {
namespace {

TEST(Shape, CountsElementsAndPrintsItself) {
  EXPECT_EQ(Shape({3, 4, 5}).num_elements(), 60);
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape({0, 4}).num_elements(), 0);
  EXPECT_EQ(Shape({3, 4}).ToString(), "[3, 4]");
}

TEST(Tensor, ViewsRowsOfTheFirstAxis) {
  std::array<float, 6> values = {0, 1, 2, 3, 4, 5};
  const Tensor tensor{values.data(), DType::kF32, {3, 2}};
  const Tensor rows = tensor.Rows(1, 3);
  EXPECT_EQ(rows.shape, Shape({2, 2}));
  EXPECT_EQ(rows.As<float>()[0], 2);
  EXPECT_DEATH(tensor.Rows(2, 4), "rows 2 to 4 of \\[3, 2\\]");
  EXPECT_DEATH(tensor.Reshaped({4}), "\\[3, 2\\] as \\[4\\]");
  EXPECT_DEATH(tensor.As<int32_t>(), "tensor is F32");
}

}  // namespace
}  // namespace cachalot
