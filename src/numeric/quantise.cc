#include "numeric/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "numeric/formats.h"

namespace cachalot {
namespace {

float LargestMagnitude(std::span<const float> values, float floor) {
  float largest = floor;
  for (const float value : values) {
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

constexpr float kFp8Floor = 1e-4F;
constexpr float kInt8Floor = 1e-12F;
const float kFp4Floor = std::ldexp(6.0F, -126);

int8_t Int8Code(float value, float scale) {
  return static_cast<int8_t>(std::clamp(std::nearbyint(value / scale), -127.0F, 127.0F));
}

}  // namespace

float PowerOfTwoScale(float amax, float largest) {
  const uint32_t bits = std::bit_cast<uint32_t>(amax * (1.0F / largest));
  const int exponent =
      static_cast<int>((bits >> 23) & 0xFF) - 127 + static_cast<int>((bits & 0x7FFFFF) != 0);
  return std::ldexp(1.0F, exponent);
}

float QuantiseFp8(std::span<const float> block, std::span<uint8_t> codes) {
  const float scale = PowerOfTwoScale(LargestMagnitude(block, kFp8Floor), kE4m3Max);
  for (size_t i = 0; i < block.size(); ++i) {
    codes[i] = FloatToE4m3(block[i] / scale);
  }
  return scale;
}

float QuantiseFp4(std::span<const float> block, std::span<uint8_t> pairs) {
  const float scale = PowerOfTwoScale(LargestMagnitude(block, kFp4Floor), kE2m1Max);
  for (size_t i = 0; i < block.size(); i += 2) {
    pairs[i / 2] = static_cast<uint8_t>(FloatToE2m1(block[i] / scale) |
                                        (FloatToE2m1(block[i + 1] / scale) << 4));
  }
  return scale;
}

float QuantiseInt8(std::span<const float> row, std::span<int8_t> codes) {
  const float scale = LargestMagnitude(row, kInt8Floor) / 127.0F;
  for (size_t i = 0; i < row.size(); ++i) {
    codes[i] = Int8Code(row[i], scale);
  }
  return scale;
}

void RoundFp8Blocks(std::span<float> row, int64_t block) {
  const auto width = static_cast<size_t>(block);
  CACHALOT_CHECK_EQ(row.size() % width, 0U);
  for (size_t begin = 0; begin < row.size(); begin += width) {
    const auto values = row.subspan(begin, width);
    const float scale = PowerOfTwoScale(LargestMagnitude(values, kFp8Floor), kE4m3Max);
    for (float& value : values) {
      value = E4m3ToFloat(FloatToE4m3(value / scale)) * scale;
    }
  }
}

void RoundFp4Blocks(std::span<float> row, int64_t block) {
  const auto width = static_cast<size_t>(block);
  CACHALOT_CHECK_EQ(row.size() % width, 0U);
  for (size_t begin = 0; begin < row.size(); begin += width) {
    const auto values = row.subspan(begin, width);
    const float scale = PowerOfTwoScale(LargestMagnitude(values, kFp4Floor), kE2m1Max);
    for (float& value : values) {
      value = E2m1ToFloat(FloatToE2m1(value / scale)) * scale;
    }
  }
}

void RoundInt8Row(std::span<float> row) {
  const float scale = LargestMagnitude(row, kInt8Floor) / 127.0F;
  const float kept = F16ToFloat(FloatToF16(scale));
  for (float& value : row) {
    value = static_cast<float>(Int8Code(value, scale)) * kept;
  }
}

}  // namespace cachalot
