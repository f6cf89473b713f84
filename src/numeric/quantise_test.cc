#include "numeric/quantise.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "numeric/formats.h"

namespace cachalot {
namespace {

float Fp8Scale(float amax) {
  const std::array<float, 2> block = {amax, 0};
  std::array<uint8_t, 2> codes = {};
  return QuantiseFp8(block, codes);
}

float Fp4Scale(float amax) {
  const std::array<float, 2> block = {-amax, 0};
  std::array<uint8_t, 1> pairs = {};
  return QuantiseFp4(block, pairs);
}

TEST(Quantise, Fp8ScalesArePowersOfTwoWithAFloor) {
  EXPECT_EQ(Fp8Scale(0), std::ldexp(1.0F, -22));
  EXPECT_EQ(Fp8Scale(1e-5F), std::ldexp(1.0F, -22));
  EXPECT_EQ(Fp8Scale(1), std::ldexp(1.0F, -8));
  EXPECT_EQ(Fp8Scale(3.5F), std::ldexp(1.0F, -7));
  EXPECT_EQ(Fp8Scale(448), 1);
  EXPECT_EQ(Fp8Scale(449), 2);
}

TEST(Quantise, Fp4ScalesArePowersOfTwo) {
  EXPECT_EQ(Fp4Scale(1), .25F);
  EXPECT_EQ(Fp4Scale(6), 1);
  EXPECT_EQ(Fp4Scale(6.1F), 2);
  EXPECT_EQ(Fp4Scale(.75F), .125F);
}

TEST(Quantise, PacksTheEvenElementIntoTheLowNibble) {
  const std::array<float, 4> block = {6, -0.5F, 1, 0};
  std::array<uint8_t, 2> pairs = {};
  EXPECT_EQ(QuantiseFp4(block, pairs), 1);
  EXPECT_EQ(pairs[0], 0x97);
  EXPECT_EQ(pairs[1], 0x02);
}

TEST(Quantise, RoundingEqualsQuantisingAndBack) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> row(256);
  for (float& value : row) {
    value = normal(random);
  }
  std::vector<float> fp8 = row;
  RoundFp8Blocks(fp8, 64);
  std::vector<float> fp4 = row;
  RoundFp4Blocks(fp4, 32);
  for (size_t begin = 0; begin < row.size(); begin += 64) {
    std::array<uint8_t, 64> codes = {};
    const float scale = QuantiseFp8(std::span(row).subspan(begin, 64), codes);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(fp8[begin + i], E4m3ToFloat(codes[i]) * scale);
      // The values fit bfloat16 exactly: rows may be kept in it.
      EXPECT_EQ(RoundToBf16(fp8[begin + i]), fp8[begin + i]);
    }
  }
  for (size_t begin = 0; begin < row.size(); begin += 32) {
    std::array<uint8_t, 16> pairs = {};
    const float scale = QuantiseFp4(std::span(row).subspan(begin, 32), pairs);
    for (size_t i = 0; i < 32; ++i) {
      const uint8_t code = (i % 2 == 0 ? pairs[i / 2] : pairs[i / 2] >> 4) & 0xF;
      EXPECT_EQ(fp4[begin + i], E2m1ToFloat(code) * scale);
    }
  }
}

TEST(Quantise, RoundingIsIdempotent) {
  std::vector<float> row = {0.1F, -3.7F, 2.2F, 100.0F, 1e-7F, 0, -0.0F, 5};
  RoundFp8Blocks(row, 8);
  std::vector<float> again = row;
  RoundFp8Blocks(again, 8);
  EXPECT_EQ(again, row);
}

TEST(Quantise, Int8IsSymmetricAndSurvivesZeros) {
  const std::array<float, 3> row = {-2, 1, 0.5F};
  std::array<int8_t, 3> codes = {};
  EXPECT_EQ(QuantiseInt8(row, codes), 2.0F / 127);
  EXPECT_EQ(codes, (std::array<int8_t, 3>{-127, 64, 32}));
  std::vector<float> zeros(8, 0.0F);
  RoundInt8Row(zeros);
  EXPECT_EQ(zeros, std::vector<float>(8, 0.0F));
}

TEST(Quantise, Int8IsWithinHalfAStep) {
  std::mt19937 random(11);
  for (const float spread : {1e-3F, 1.0F, 1e4F}) {
    std::normal_distribution<float> normal(0, spread);
    std::array<float, 128> row = {};
    for (float& value : row) {
      value = normal(random);
    }
    std::array<int8_t, 128> codes = {};
    const float scale = QuantiseInt8(row, codes);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_LE(std::fabs(static_cast<float>(codes[i]) * scale - row[i]), scale * 0.50001F) << i;
    }
  }
}

}  // namespace
}  // namespace cachalot
