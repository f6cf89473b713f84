#include "numeric/formats.h"

#include <algorithm>
#include <cmath>

namespace cachalot {
namespace {

// Nearest multiple of a small float's step at this magnitude, for formats whose normals start at
// 2^min_exponent.
float RoundToGrid(float magnitude, int mantissa_bits, int min_exponent) {
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : min_exponent, min_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)),
                    exponent - mantissa_bits);
}

// The code of a non-negative value on the grid of a format with this exponent bias.
uint8_t EncodeOnGrid(float magnitude, int mantissa_bits, int bias) {
  const int min_exponent = 1 - bias;
  const int exponent = magnitude > 0 ? std::ilogb(magnitude) : min_exponent - 1;
  if (exponent < min_exponent) {
    return static_cast<uint8_t>(std::ldexp(magnitude, mantissa_bits - min_exponent));
  }
  const auto significand = static_cast<int>(std::ldexp(magnitude, mantissa_bits - exponent));
  return static_cast<uint8_t>(((exponent + bias) << mantissa_bits) |
                              (significand - (1 << mantissa_bits)));
}

}  // namespace

float E4m3ToFloat(uint8_t code) {
  const int exponent = (code >> 3) & 0xF;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) {
    return std::bit_cast<float>(0x7FC00000U);
  }
  const float magnitude = exponent > 0
                              ? std::ldexp(1.0F + static_cast<float>(mantissa) / 8, exponent - 7)
                              : std::ldexp(static_cast<float>(mantissa), -9);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

uint8_t FloatToE4m3(float value) {
  if (std::isnan(value)) {
    return 0x7F;
  }
  const float clamped = std::min(std::fabs(value), kE4m3Max);
  const float rounded = std::min(RoundToGrid(clamped, 3, -6), kE4m3Max);
  return static_cast<uint8_t>(EncodeOnGrid(rounded, 3, 7) | (std::signbit(value) ? 0x80 : 0));
}

float E2m1ToFloat(uint8_t code) {
  constexpr float kValues[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kValues[code & 7];
  return (code & 8) != 0 ? -magnitude : magnitude;
}

uint8_t FloatToE2m1(float value) {
  if (std::isnan(value)) {
    return 7;
  }
  const float rounded = std::min(RoundToGrid(std::min(std::fabs(value), kE2m1Max), 1, 0), kE2m1Max);
  return static_cast<uint8_t>(EncodeOnGrid(rounded, 1, 1) | (std::signbit(value) ? 8 : 0));
}

float F16ToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  float magnitude = 0;
  if (exponent == 31) {
    magnitude = mantissa == 0 ? HUGE_VALF : std::bit_cast<float>(0x7FC00000U);
  } else if (exponent > 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

uint16_t FloatToF16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    return sign | 0x7E00;
  }
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) {  // halfway between the largest half and the next power of two
    return sign | 0x7C00;
  }
  const float rounded = RoundToGrid(magnitude, 10, -14);
  if (rounded < std::ldexp(1.0F, -14)) {
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::ldexp(rounded, 24)));
  }
  const int exponent = std::ilogb(rounded);
  const auto significand = static_cast<int>(std::ldexp(rounded, 10 - exponent));
  return static_cast<uint16_t>(sign | ((exponent + 15) << 10) | (significand - 1024));
}

}  // namespace cachalot
