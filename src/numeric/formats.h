// Number formats of checkpoints and caches, one value at a time: the definitions that every kernel
// is tested against. Every rounding is to nearest, ties to even. Source: OCP MX 1.0 (e4m3fn, e2m1,
// ue8m0), IEEE 754 (f16), bfloat16.
#pragma once

#include <bit>
#include <cstdint>

namespace cachalot {

inline constexpr float kE4m3Max = 448.0F;
inline constexpr float kE2m1Max = 6.0F;

struct Bf16 {
  uint16_t bits = 0;
};

inline float Bf16ToFloat(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// NaN stays NaN; overflow goes to infinity.
inline Bf16 FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40U)};
  }
  return Bf16{static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

inline float RoundToBf16(float value) { return Bf16ToFloat(FloatToBf16(value)); }

float F16ToFloat(uint16_t bits);
uint16_t FloatToF16(float value);

// e4m3fn: bias 7, subnormal step 2^-9, codes 0x7F and 0xFF are NaN, no infinity.
float E4m3ToFloat(uint8_t code);
// Saturates at +-448; NaN gives code 0x7F.
uint8_t FloatToE4m3(float value);

// e2m1: codes 0..7 are 0, .5, 1, 1.5, 2, 3, 4, 6; bit 3 is the sign.
float E2m1ToFloat(uint8_t code);
// Saturates at +-6; NaN gives +6.
uint8_t FloatToE2m1(float value);

// ue8m0: code b is 2^(b-127); 255 is NaN.
inline float Ue8m0ToFloat(uint8_t code) {
  if (code == 255) {
    return std::bit_cast<float>(0x7FC00000U);
  }
  return code == 0 ? std::bit_cast<float>(0x00400000U)
                   : std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}
// The code of a positive normal power of two.
inline uint8_t PowerOfTwoToUe8m0(float scale) {
  return static_cast<uint8_t>(std::bit_cast<uint32_t>(scale) >> 23);
}

}  // namespace cachalot
