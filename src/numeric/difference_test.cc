#include "numeric/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace cachalot {
namespace {

TEST(Difference, IsZeroForEqualAndOneForOrthogonal) {
  const std::vector<float> x = {1, 2, 3};
  EXPECT_EQ(Difference(x, x), 0);
  EXPECT_EQ(Difference(std::vector<float>{1, 0}, std::vector<float>{0, 1}), 1);
}

TEST(Difference, IsInfiniteWhereOnlyOneSideIsNotFinite) {
  EXPECT_TRUE(std::isinf(Difference(std::vector<float>{NAN}, std::vector<float>{1})));
  EXPECT_EQ(Difference(std::vector<float>{NAN, 1}, std::vector<float>{NAN, 1}), 0);
}

TEST(RelativeError, IsMeasuredAgainstWhatIsWanted) {
  EXPECT_DOUBLE_EQ(RelativeError(std::vector<float>{3}, std::vector<float>{2}), 0.5);
  EXPECT_TRUE(std::isinf(RelativeError(std::vector<float>{1}, std::vector<float>{0})));
}

TEST(FirstBitDifference, NamesThePlace) {
  EXPECT_EQ(FirstBitDifference(std::vector<float>{1, 2}, std::vector<float>{1, 2}), "");
  EXPECT_EQ(FirstBitDifference(std::vector<float>{0.0F}, std::vector<float>{-0.0F}),
            "value 0: 0 (00000000) against -0 (80000000)");
}

}  // namespace
}  // namespace cachalot
