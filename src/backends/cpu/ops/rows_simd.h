// Rows of the caches (tensor/rows.h) decoded and encoded 16 values at a time, to the same bits as
// DecodeRow and EncodeRow there. Widths are multiples of 16. For files that may include simd.h.
#pragma once

#include "backends/cpu/ops/simd.h"
#include "tensor/rows.h"

namespace cachalot::cpu::CACHALOT_SIMD {

constexpr int64_t kFp8Block = 64;
constexpr int64_t kFp4Block = 32;

// ---- Decoding.

// e4m3 with its NaN codes, which would read +-480 as float16.
CACHALOT_SIMD_FN F32x16 E4m3Values(const uint8_t* codes) {
  __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(LoadBytes16(codes)), 7);
  words = _mm256_and_si256(words, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)));
  const __m256i largest = _mm256_set1_epi16(0x3F80);
  const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(words, largest), largest);
  words = _mm256_blendv_epi8(words, _mm256_set1_epi16(0x7E00), nan);
  return Mul(FromF16(words), Broadcast(kE4m3Unit));
}

// Whether any of 64 codes is a NaN.
CACHALOT_SIMD_FN bool AnyE4m3Nan(const uint8_t* codes) {
  const __m256i magnitude = _mm256_set1_epi8(0x7F);
  __m256i nan = _mm256_setzero_si256();
  for (int64_t i = 0; i < kFp8Block; i += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    nan = _mm256_or_si256(nan, _mm256_cmpeq_epi8(_mm256_and_si256(bytes, magnitude), magnitude));
  }
  return _mm256_testz_si256(nan, nan) == 0;
}

// In one product where no code is a NaN and the scale times the unit no infinity.
CACHALOT_SIMD_FN void DecodeFp8Block(const uint8_t* codes, float scale, float* values) {
  if (scale < 0x1p119F && !AnyE4m3Nan(codes)) {
    const F32x16 unit = Broadcast(scale * kE4m3Unit);
    for (int64_t i = 0; i < kFp8Block; i += kLanes) {
      Store(values + i, Mul(LoadE4m3(codes + i), unit));
    }
    return;
  }
  for (int64_t i = 0; i < kFp8Block; i += kLanes) {
    Store(values + i, Mul(E4m3Values(codes + i), Broadcast(scale)));
  }
}

// Through float16, which has all of e2m1, -0 too, with an empty low byte.
CACHALOT_SIMD_FN void DecodeFp4Block(const uint8_t* pairs, float scale, float* values) {
  const __m128i high_byte =
      _mm_setr_epi8(0x00, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46, static_cast<char>(0x80),
                    static_cast<char>(0xB8), static_cast<char>(0xBC), static_cast<char>(0xBE),
                    static_cast<char>(0xC0), static_cast<char>(0xC2), static_cast<char>(0xC4),
                    static_cast<char>(0xC6));
  const __m128i nibble = _mm_set1_epi8(0xF);
  const __m128i bytes = LoadBytes16(pairs);
  const __m128i even = _mm_shuffle_epi8(high_byte, _mm_and_si128(bytes, nibble));
  const __m128i odd = _mm_shuffle_epi8(high_byte, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
  const __m128i first = _mm_unpacklo_epi8(even, odd);
  const __m128i second = _mm_unpackhi_epi8(even, odd);
  const __m256i first_halves = _mm256_slli_epi16(_mm256_cvtepu8_epi16(first), 8);
  const __m256i second_halves = _mm256_slli_epi16(_mm256_cvtepu8_epi16(second), 8);
  Store(values, Mul(FromF16(first_halves), Broadcast(scale)));
  Store(values + kLanes, Mul(FromF16(second_halves), Broadcast(scale)));
}

CACHALOT_SIMD_FN float HalfAt(const uint8_t* bytes) {
  uint16_t half = 0;
  __builtin_memcpy(&half, bytes, sizeof(half));
  return _cvtsh_ss(half);
}

[[maybe_unused]] static void DecodeRow(const RowLayout& layout, const void* row, float* values) {
  const auto* bytes = static_cast<const uint8_t*>(row);
  const int64_t width = layout.width;
  switch (layout.format) {
    case RowFormat::kF32:
      for (int64_t i = 0; i < width; i += kLanes) {
        Store(values + i, Load(static_cast<const float*>(row) + i));
      }
      return;
    case RowFormat::kBf16:
      for (int64_t i = 0; i < width; i += kLanes) {
        Store(values + i, LoadBf16(bytes + 2 * i));
      }
      return;
    case RowFormat::kFp8Bf16: {
      const int64_t nope = width - layout.rope_dim;
      const uint8_t* scales = bytes + nope + 2 * layout.rope_dim;
      for (int64_t i = 0; i < nope; i += kFp8Block) {
        DecodeFp8Block(bytes + i, FromUe8m0(scales[i / kFp8Block]), values + i);
      }
      for (int64_t i = 0; i < layout.rope_dim; i += kLanes) {
        Store(values + nope + i, LoadBf16(bytes + nope + 2 * i));
      }
      return;
    }
    case RowFormat::kFp4: {
      const uint8_t* scales = bytes + width / 2;
      for (int64_t i = 0; i < width; i += kFp4Block) {
        DecodeFp4Block(bytes + i / 2, FromUe8m0(scales[i / kFp4Block]), values + i);
      }
      return;
    }
    case RowFormat::kInt8: {
      const F32x16 scale = Broadcast(HalfAt(bytes + width));
      for (int64_t i = 0; i < width; i += kLanes) {
        Store(values + i, Mul(LoadInt8(bytes + i), scale));
      }
      return;
    }
  }
}

// ---- Encoding.

// 16 words, or 16 bytes, of 16 codes that eight lanes each hold.
CACHALOT_SIMD_FN __m256i PackWords(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), 0xD8);
}
CACHALOT_SIMD_FN __m128i PackBytes(__m256i first, __m256i second) {
  const __m256i words = PackWords(first, second);
  return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

// The codes of a small float with one sign, some exponent and `mantissa_bits` bits, for magnitudes
// up to `largest`; smaller normals than `smallest_normal` step like the integers above `magic`.
// Ties go to even in both: in the first by adding just under half a step, in the second by the
// addition itself.
CACHALOT_SIMD_FN __m256i SmallFloatCodes(__m256 a, int mantissa_bits, int exponent_offset,
                                         float largest, float smallest_normal, float magic,
                                         int sign_bit) {
  const int dropped = 23 - mantissa_bits;
  const __m256 magnitude =
      _mm256_min_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a), _mm256_set1_ps(largest));
  const __m256i bits = _mm256_castps_si256(magnitude);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, dropped), _mm256_set1_epi32(1));
  const __m256i half = _mm256_set1_epi32((1 << (dropped - 1)) - 1);
  const __m256i normal = _mm256_sub_epi32(
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(half, odd)), dropped),
      _mm256_set1_epi32(exponent_offset << mantissa_bits));
  const __m256 base = _mm256_set1_ps(magic);
  const __m256i subnormal = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(magnitude, base)),
                                             _mm256_castps_si256(base));
  const __m256 is_small = _mm256_cmp_ps(magnitude, _mm256_set1_ps(smallest_normal), _CMP_LT_OQ);
  const __m256i code = _mm256_blendv_epi8(normal, subnormal, _mm256_castps_si256(is_small));
  const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(_mm256_castps_si256(a), 31), sign_bit);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_or_si256(code, sign), _mm256_set1_epi32((1 << sign_bit) - 1),
                            nan);
}

CACHALOT_SIMD_FN __m128i ToE4m3(F32x16 a) {
  return PackBytes(SmallFloatCodes(LowHalf(a), 3, 120, 448.0F, 0x1p-6F, 0x1p14F, 7),
                   SmallFloatCodes(HighHalf(a), 3, 120, 448.0F, 0x1p-6F, 0x1p14F, 7));
}
// Eight bytes of pairs, in the low half.
CACHALOT_SIMD_FN __m128i ToE2m1(F32x16 a) {
  const __m128i codes = PackBytes(SmallFloatCodes(LowHalf(a), 1, 126, 6.0F, 1.0F, 0x1p22F, 3),
                                  SmallFloatCodes(HighHalf(a), 1, 126, 6.0F, 1.0F, 0x1p22F, 3));
  const __m128i pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x1001));
  return _mm_packus_epi16(pairs, pairs);
}

CACHALOT_SIMD_FN __m256i Bf16Words(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), odd)), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}
CACHALOT_SIMD_FN void StoreBf16(void* words, F32x16 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(words),
                      PackWords(Bf16Words(LowHalf(a)), Bf16Words(HighHalf(a))));
}

// NaN counts for nothing.
CACHALOT_SIMD_FN float LargestMagnitude(const float* values, int64_t count, float floor) {
  F32x16 largest = Broadcast(floor);
  for (int64_t i = 0; i < count; i += kLanes) {
    largest = Max(Abs(Load(values + i)), largest);
  }
  return MaxOf(largest);
}

// The smallest power of two that brings amax inside the format, and what to multiply by instead of
// dividing: the same bits, a power of two being exact. An infinite amax leaves 0 and NaN.
struct PowerOfTwoScale {
  float inverse;
  uint8_t code;
};
CACHALOT_SIMD_FN PowerOfTwoScale ScaleFor(float amax, float largest) {
  const auto bits = __builtin_bit_cast(uint32_t, amax * (1.0F / largest));
  const uint32_t code = ((bits >> 23) & 0xFFU) + ((bits & 0x7FFFFFU) != 0 ? 1U : 0U);
  const float inverse = code > 253 ? 0.0F : __builtin_bit_cast(float, (254U - code) << 23);
  return {inverse, static_cast<uint8_t>(code)};
}

// While it is not kept as a code, the scale of an infinite amax is infinite, not NaN.
CACHALOT_SIMD_FN float ScaleOf(uint8_t code) {
  return __builtin_bit_cast(float, uint32_t{code} << 23);
}

// Writes 64 codes; returns the code of their scale.
CACHALOT_SIMD_FN uint8_t EncodeFp8Block(const float* values, uint8_t* codes) {
  const PowerOfTwoScale scale = ScaleFor(LargestMagnitude(values, kFp8Block, 1e-4F), 448.0F);
  for (int64_t i = 0; i < kFp8Block; i += kLanes) {
    const F32x16 scaled = Mul(Load(values + i), Broadcast(scale.inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), ToE4m3(scaled));
  }
  return scale.code;
}
// Writes 16 bytes of pairs; returns the code of their scale.
CACHALOT_SIMD_FN uint8_t EncodeFp4Block(const float* values, uint8_t* pairs) {
  const PowerOfTwoScale scale = ScaleFor(LargestMagnitude(values, kFp4Block, 0x1.8p-124F), 6.0F);
  for (int64_t i = 0; i < kFp4Block; i += kLanes) {
    const F32x16 scaled = Mul(Load(values + i), Broadcast(scale.inverse));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(pairs + i / 2), ToE2m1(scaled));
  }
  return scale.code;
}
CACHALOT_SIMD_FN F32x16 Int8Values(F32x16 a, F32x16 scale) {
  // Codes have no negative zero.
  const F32x16 whole = Max(Broadcast(-127), Min(Broadcast(127), Round(Div(a, scale))));
  return Add(whole, Broadcast(0));
}
CACHALOT_SIMD_FN float Int8Scale(const float* values, int64_t width) {
  return LargestMagnitude(values, width, 1e-12F) / 127.0F;
}

// The rounding alone; `rounded` may be `values`.
[[maybe_unused]] static void RoundRow(const RowLayout& layout, const float* values,
                                      float* rounded) {
  int64_t done = 0;
  switch (layout.rounding) {
    case RowRounding::kNone:
      break;
    case RowRounding::kFp8:
      for (; done < layout.width - layout.rope_dim; done += kFp8Block) {
        uint8_t codes[kFp8Block];
        const float scale = ScaleOf(EncodeFp8Block(values + done, codes));
        DecodeFp8Block(codes, scale, rounded + done);
      }
      break;
    case RowRounding::kFp4:
      for (; done < layout.width; done += kFp4Block) {
        uint8_t pairs[kFp4Block / 2];
        const float scale = ScaleOf(EncodeFp4Block(values + done, pairs));
        DecodeFp4Block(pairs, scale, rounded + done);
      }
      break;
    case RowRounding::kInt8: {
      const float scale = Int8Scale(values, layout.width);
      const F32x16 kept = Broadcast(_cvtsh_ss(_cvtss_sh(scale, _MM_FROUND_TO_NEAREST_INT)));
      for (; done < layout.width; done += kLanes) {
        Store(rounded + done, Mul(Int8Values(Load(values + done), Broadcast(scale)), kept));
      }
      break;
    }
  }
  for (; done < layout.width; done += kLanes) {
    Store(rounded + done, Load(values + done));
  }
}

CACHALOT_SIMD_FN void EncodeFp8Bf16(const RowLayout& layout, const float* values, uint8_t* row) {
  const int64_t nope = layout.width - layout.rope_dim;
  uint8_t* scales = row + nope + 2 * layout.rope_dim;
  for (int64_t i = 0; i < nope; i += kFp8Block) {
    scales[i / kFp8Block] = EncodeFp8Block(values + i, row + i);
  }
  for (int64_t i = 0; i < layout.rope_dim; i += kLanes) {
    StoreBf16(row + nope + 2 * i, Load(values + nope + i));
  }
}

CACHALOT_SIMD_FN void EncodeInt8(const RowLayout& layout, const float* values, uint8_t* row) {
  const float scale = Int8Scale(values, layout.width);
  for (int64_t i = 0; i < layout.width; i += kLanes) {
    const F32x16 whole = Int8Values(Load(values + i), Broadcast(scale));
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvtps_epi32(LowHalf(whole)), _mm256_cvtps_epi32(HighHalf(whole))),
        0xD8);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(row + i),
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  const uint16_t kept = _cvtss_sh(scale, _MM_FROUND_TO_NEAREST_INT);
  __builtin_memcpy(row + layout.width, &kept, sizeof(kept));
}

// bfloat16 rows know no rounding or that of fp8.
CACHALOT_SIMD_FN void EncodeBf16(const RowLayout& layout, const float* values, uint8_t* row) {
  const int64_t blocks_end =
      layout.rounding == RowRounding::kFp8 ? layout.width - layout.rope_dim : 0;
  for (int64_t i = 0; i < blocks_end; i += kFp8Block) {
    uint8_t codes[kFp8Block];
    float rounded[kFp8Block];
    DecodeFp8Block(codes, ScaleOf(EncodeFp8Block(values + i, codes)), rounded);
    for (int64_t j = 0; j < kFp8Block; j += kLanes) {
      StoreBf16(row + 2 * (i + j), Load(rounded + j));
    }
  }
  for (int64_t i = blocks_end; i < layout.width; i += kLanes) {
    StoreBf16(row + 2 * i, Load(values + i));
  }
}

[[maybe_unused]] static void EncodeRow(const RowLayout& layout, const float* values, void* row) {
  auto* bytes = static_cast<uint8_t*>(row);
  switch (layout.format) {
    case RowFormat::kF32:
      return RoundRow(layout, values, static_cast<float*>(row));
    case RowFormat::kBf16:
      return EncodeBf16(layout, values, bytes);
    case RowFormat::kFp8Bf16:
      return EncodeFp8Bf16(layout, values, bytes);
    case RowFormat::kFp4:
      for (int64_t i = 0; i < layout.width; i += kFp4Block) {
        bytes[layout.width / 2 + i / kFp4Block] = EncodeFp4Block(values + i, bytes + i / 2);
      }
      return;
    case RowFormat::kInt8:
      return EncodeInt8(layout, values, bytes);
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
