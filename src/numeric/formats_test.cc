#include "numeric/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace cachalot {
namespace {

// The codes of a format with the values they stand for must come back, and a value between two
// neighbours must go to the nearer one, or in the middle to the even code.
template <typename Decode, typename Encode>
void ExpectNearestEven(int codes, Decode decode, Encode encode) {
  for (int code = 0; code + 1 < codes; ++code) {
    const float low = decode(static_cast<uint8_t>(code));
    const float high = decode(static_cast<uint8_t>(code + 1));
    ASSERT_LT(low, high);
    EXPECT_EQ(encode(low), code);
    const float middle = (low + high) / 2;
    EXPECT_EQ(encode(middle), code % 2 == 0 ? code : code + 1) << middle;
    EXPECT_EQ(encode(std::nextafter(middle, low)), code);
    EXPECT_EQ(encode(std::nextafter(middle, high)), code + 1);
    EXPECT_EQ(decode(encode(-high)), -high);
  }
}

TEST(E4m3, RoundsEveryValueToTheNearestEvenCode) {
  ExpectNearestEven(127, E4m3ToFloat, FloatToE4m3);
}

TEST(E2m1, RoundsEveryValueToTheNearestEvenCode) { ExpectNearestEven(8, E2m1ToFloat, FloatToE2m1); }

TEST(E4m3, SaturatesAndKeepsNaN) {
  EXPECT_EQ(E4m3ToFloat(FloatToE4m3(1e9F)), 448.0F);
  EXPECT_EQ(E4m3ToFloat(FloatToE4m3(-HUGE_VALF)), -448.0F);
  EXPECT_TRUE(std::isnan(E4m3ToFloat(FloatToE4m3(NAN))));
  EXPECT_EQ(E4m3ToFloat(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(FloatToE4m3(-0.0F), 0x80);
}

TEST(E2m1, SaturatesAndBreaksTiesToEven) {
  EXPECT_EQ(E2m1ToFloat(FloatToE2m1(100.0F)), 6.0F);
  const float ties[][2] = {{.25F, 0}, {.75F, 1}, {1.25F, 1}, {1.75F, 2},
                           {2.5F, 2}, {3.5F, 4}, {5, 4}};
  for (const auto& [value, rounded] : ties) {
    EXPECT_EQ(E2m1ToFloat(FloatToE2m1(value)), rounded) << value;
  }
}

TEST(Ue8m0, IsThePowerOfTwoOfItsCode) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(Ue8m0ToFloat(static_cast<uint8_t>(code)), std::ldexp(1.0F, code - 127));
  }
  EXPECT_TRUE(std::isnan(Ue8m0ToFloat(255)));
  for (int code = 1; code < 255; ++code) {
    EXPECT_EQ(PowerOfTwoToUe8m0(std::ldexp(1.0F, code - 127)), code);
  }
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0F).bits, 0x3F80);
  EXPECT_EQ(RoundToBf16(std::bit_cast<float>(0x3F808000U)), std::bit_cast<float>(0x3F800000U));
  EXPECT_EQ(RoundToBf16(std::bit_cast<float>(0x3F818000U)), std::bit_cast<float>(0x3F820000U));
  EXPECT_EQ(RoundToBf16(std::bit_cast<float>(0x3F808001U)), std::bit_cast<float>(0x3F810000U));
  EXPECT_TRUE(std::isinf(RoundToBf16(std::numeric_limits<float>::max())));
  EXPECT_TRUE(std::isnan(RoundToBf16(std::bit_cast<float>(0x7F800001U))));
}

TEST(F16, EveryCodeComesBackAndMiddlesGoToEven) {
  for (int code = 0; code < 0x7C00; ++code) {
    const float value = F16ToFloat(static_cast<uint16_t>(code));
    ASSERT_EQ(FloatToF16(value), code);
    ASSERT_EQ(FloatToF16(-value), code | 0x8000);
    if (code + 1 < 0x7C00) {
      const float next = F16ToFloat(static_cast<uint16_t>(code + 1));
      ASSERT_EQ(FloatToF16((value + next) / 2), code % 2 == 0 ? code : code + 1);
    }
  }
  EXPECT_EQ(FloatToF16(65520.0F), 0x7C00);
  EXPECT_EQ(FloatToF16(65519.0F), 0x7BFF);
  EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(NAN))));
}

}  // namespace
}  // namespace cachalot
