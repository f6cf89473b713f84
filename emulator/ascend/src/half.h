// BF16 and FP16 to float and back, rounded to nearest even as the device rounds.
#pragma once

#include <bit>
#include <cstdint>

namespace ascend_emulator {

inline float FromBf16(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }

inline uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float FromFp16(uint16_t value) {
  const uint32_t sign = (uint32_t{value} & 0x8000U) << 16;
  const uint32_t exponent = (value >> 10) & 0x1fU;
  const uint32_t mantissa = value & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t ToFp16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  bits &= 0x7fffffffU;
  if (bits > 0x7f800000U) return sign | 0x7e00U;
  if (bits >= 0x477ff000U) return sign | 0x7c00U;  // 65520 and more: infinity
  if (bits < 0x38800000U) {
    // Subnormal: one half has the last place of the smallest FP16, so the sum is rounded there.
    const float shifted = std::bit_cast<float>(bits) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  bits +=
      0xc8000fffU + ((bits >> 13) & 1U);  // exponent 127 -> 15, and half of the last place less one
  return static_cast<uint16_t>(sign | (bits >> 13));
}

}  // namespace ascend_emulator
