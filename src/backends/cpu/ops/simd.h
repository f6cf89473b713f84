// The one vector that kernels are written on: 16 floats, as one AVX-512 register or two of AVX2.
// The same kernel source is compiled once for each instruction set, and both give the same bits:
// same lanes, same order, and a multiply and an add are fused only where Fma says so.
//
// Only <op>/avx2.cc and <op>/avx512.cc may include this header, and what they compile must stay
// leaf code. An inline function or a template of another header would leave a weak symbol in such
// an object, the linker might keep that copy for the whole program, and it would then die on a
// machine without AVX-512. So: plain structs of pointers and sizes, no std:: containers or
// algorithms, kernels in an anonymous namespace inside CACHALOT_SIMD; the test unit.isa_symbols
// looks.
#pragma once

#include <immintrin.h>

#include <cstdint>

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "only for files that are compiled with AVX2, FMA and F16C"
#endif

#if defined(__AVX512F__)
#define CACHALOT_SIMD avx512
#else
#define CACHALOT_SIMD avx2
#endif
#define CACHALOT_SIMD_MEMBER [[gnu::always_inline]] inline
// Before a loop of a few constant turns over an array of vectors: only unrolled do they stay in
// registers.
#if defined(__clang__)
#define CACHALOT_UNROLL _Pragma("unroll")
#else
#define CACHALOT_UNROLL _Pragma("GCC unroll 8")
#endif
#define CACHALOT_SIMD_FN [[maybe_unused, gnu::always_inline]] static inline

namespace cachalot::cpu::CACHALOT_SIMD {

constexpr int kLanes = 16;

// ---- The vector, and what differs between the instruction sets.

#if defined(__AVX512F__)

struct F32x16 {
  __m512 v;
};

CACHALOT_SIMD_FN F32x16 Broadcast(float a) { return {_mm512_set1_ps(a)}; }
CACHALOT_SIMD_FN F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
CACHALOT_SIMD_FN void Store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
// The first n of 16 elements, 0 <= n <= 16; the rest is not touched, and reads as zero.
CACHALOT_SIMD_FN F32x16 LoadFirst(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1U), p)};
}
CACHALOT_SIMD_FN void StoreFirst(float* p, F32x16 a, int n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << n) - 1U), a.v);
}

CACHALOT_SIMD_FN F32x16 Add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
CACHALOT_SIMD_FN F32x16 Sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
CACHALOT_SIMD_FN F32x16 Mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
CACHALOT_SIMD_FN F32x16 Div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
CACHALOT_SIMD_FN F32x16 Sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
// a * b + c with one rounding; c - a * b likewise.
CACHALOT_SIMD_FN F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
CACHALOT_SIMD_FN F32x16 FmaNegative(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
// Where one is NaN, the second.
CACHALOT_SIMD_FN F32x16 Min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
CACHALOT_SIMD_FN F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
// To the nearest whole number, ties to even.
CACHALOT_SIMD_FN F32x16 Round(F32x16 a) { return {_mm512_roundscale_ps(a.v, 8)}; }
CACHALOT_SIMD_FN F32x16 Abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
// a < b ? x : y
CACHALOT_SIMD_FN F32x16 IfLess(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
// 2^a for whole a in [-126, 127].
CACHALOT_SIMD_FN F32x16 PowerOfTwo(F32x16 a) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}

CACHALOT_SIMD_FN __m256 LowHalf(F32x16 a) { return _mm512_castps512_ps256(a.v); }
CACHALOT_SIMD_FN __m256 HighHalf(F32x16 a) { return _mm512_extractf32x8_ps(a.v, 1); }

// 16 float16, or 16 signed words, as floats.
CACHALOT_SIMD_FN F32x16 FromF16(__m256i halves) { return {_mm512_cvtph_ps(halves)}; }
CACHALOT_SIMD_FN F32x16 FromBytes(__m128i bytes) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
CACHALOT_SIMD_FN F32x16 FromBf16(__m256i words) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))};
}

// 16 dwords, or 64 bytes of whatever width.
struct I32x16 {
  __m512i v;
};
CACHALOT_SIMD_FN I32x16 LoadInts(const void* p) { return {_mm512_loadu_si512(p)}; }
CACHALOT_SIMD_FN void StoreInts(void* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
CACHALOT_SIMD_FN I32x16 And(I32x16 a, uint32_t mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi32(static_cast<int32_t>(mask)))};
}
CACHALOT_SIMD_FN I32x16 AddInts(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
CACHALOT_SIMD_FN I32x16 ShiftLeft(I32x16 a, int bits) {
  return {_mm512_slli_epi32(a.v, static_cast<unsigned>(bits))};
}
CACHALOT_SIMD_FN I32x16 ShiftRightSigned(I32x16 a, int bits) {
  return {_mm512_srai_epi32(a.v, static_cast<unsigned>(bits))};
}
CACHALOT_SIMD_FN I32x16 ShiftWordsLeft(I32x16 a, int bits) {
  return {_mm512_slli_epi16(a.v, static_cast<unsigned>(bits))};
}
CACHALOT_SIMD_FN I32x16 ShiftWordsRight(I32x16 a, int bits) {
  return {_mm512_srli_epi16(a.v, static_cast<unsigned>(bits))};
}
// table[byte] for bytes below 16.
CACHALOT_SIMD_FN I32x16 LookUp(__m128i table, I32x16 bytes) {
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), bytes.v)};
}
// Per dword, the sum of the products of its two signed words.
CACHALOT_SIMD_FN I32x16 MultiplyWordPairs(I32x16 a, I32x16 b) {
  return {_mm512_madd_epi16(a.v, b.v)};
}
CACHALOT_SIMD_FN F32x16 AsFloats(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
CACHALOT_SIMD_FN F32x16 ToFloats(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
// Element i of four in lanes 4i ... 4i + 3.
CACHALOT_SIMD_FN F32x16 SpreadFour(__m128 four) {
  const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return {_mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(four))};
}

#else

struct F32x16 {
  __m256 lo;  // elements 0..7
  __m256 hi;
};

// All ones in the first n lanes, for lanes that begin at `first`.
CACHALOT_SIMD_FN __m256i FirstLanes(int n, int first) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first), lane);
}

CACHALOT_SIMD_FN F32x16 Broadcast(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
CACHALOT_SIMD_FN F32x16 Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
CACHALOT_SIMD_FN void Store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
// The first n of 16 elements, 0 <= n <= 16; the rest is not touched, and reads as zero.
CACHALOT_SIMD_FN F32x16 LoadFirst(const float* p, int n) {
  return {_mm256_maskload_ps(p, FirstLanes(n, 0)), _mm256_maskload_ps(p + 8, FirstLanes(n, 8))};
}
CACHALOT_SIMD_FN void StoreFirst(float* p, F32x16 a, int n) {
  _mm256_maskstore_ps(p, FirstLanes(n, 0), a.lo);
  _mm256_maskstore_ps(p + 8, FirstLanes(n, 8), a.hi);
}

CACHALOT_SIMD_FN F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
CACHALOT_SIMD_FN F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
CACHALOT_SIMD_FN F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
CACHALOT_SIMD_FN F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
CACHALOT_SIMD_FN F32x16 Sqrt(F32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
// a * b + c with one rounding; c - a * b likewise.
CACHALOT_SIMD_FN F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
CACHALOT_SIMD_FN F32x16 FmaNegative(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
// Where one is NaN, the second.
CACHALOT_SIMD_FN F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
CACHALOT_SIMD_FN F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
// To the nearest whole number, ties to even.
CACHALOT_SIMD_FN F32x16 Round(F32x16 a) {
  return {_mm256_round_ps(a.lo, 8), _mm256_round_ps(a.hi, 8)};
}
CACHALOT_SIMD_FN F32x16 Abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
// a < b ? x : y
CACHALOT_SIMD_FN F32x16 IfLess(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
// 2^a for whole a in [-126, 127].
CACHALOT_SIMD_FN F32x16 PowerOfTwo(F32x16 a) {
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i lo = _mm256_add_epi32(_mm256_cvtps_epi32(a.lo), bias);
  const __m256i hi = _mm256_add_epi32(_mm256_cvtps_epi32(a.hi), bias);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(hi, 23))};
}

CACHALOT_SIMD_FN __m256 LowHalf(F32x16 a) { return a.lo; }
CACHALOT_SIMD_FN __m256 HighHalf(F32x16 a) { return a.hi; }

CACHALOT_SIMD_FN F32x16 FromF16(__m256i halves) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
CACHALOT_SIMD_FN F32x16 FromBytes(__m128i bytes) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
}
CACHALOT_SIMD_FN F32x16 FromBf16(__m256i words) {
  const __m256i lo = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(words));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}

// 16 dwords, or 64 bytes of whatever width.
struct I32x16 {
  __m256i lo;
  __m256i hi;
};
CACHALOT_SIMD_FN I32x16 LoadInts(const void* p) {
  const auto* from = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
}
CACHALOT_SIMD_FN void StoreInts(void* p, I32x16 a) {
  auto* to = static_cast<__m256i*>(p);
  _mm256_storeu_si256(to, a.lo);
  _mm256_storeu_si256(to + 1, a.hi);
}
CACHALOT_SIMD_FN I32x16 And(I32x16 a, uint32_t mask) {
  const __m256i all = _mm256_set1_epi32(static_cast<int32_t>(mask));
  return {_mm256_and_si256(a.lo, all), _mm256_and_si256(a.hi, all)};
}
CACHALOT_SIMD_FN I32x16 AddInts(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
CACHALOT_SIMD_FN I32x16 ShiftLeft(I32x16 a, int bits) {
  return {_mm256_slli_epi32(a.lo, bits), _mm256_slli_epi32(a.hi, bits)};
}
CACHALOT_SIMD_FN I32x16 ShiftRightSigned(I32x16 a, int bits) {
  return {_mm256_srai_epi32(a.lo, bits), _mm256_srai_epi32(a.hi, bits)};
}
CACHALOT_SIMD_FN I32x16 ShiftWordsLeft(I32x16 a, int bits) {
  return {_mm256_slli_epi16(a.lo, bits), _mm256_slli_epi16(a.hi, bits)};
}
CACHALOT_SIMD_FN I32x16 ShiftWordsRight(I32x16 a, int bits) {
  return {_mm256_srli_epi16(a.lo, bits), _mm256_srli_epi16(a.hi, bits)};
}
// table[byte] for bytes below 16.
CACHALOT_SIMD_FN I32x16 LookUp(__m128i table, I32x16 bytes) {
  const __m256i twice = _mm256_broadcastsi128_si256(table);
  return {_mm256_shuffle_epi8(twice, bytes.lo), _mm256_shuffle_epi8(twice, bytes.hi)};
}
// Per dword, the sum of the products of its two signed words.
CACHALOT_SIMD_FN I32x16 MultiplyWordPairs(I32x16 a, I32x16 b) {
  return {_mm256_madd_epi16(a.lo, b.lo), _mm256_madd_epi16(a.hi, b.hi)};
}
CACHALOT_SIMD_FN F32x16 AsFloats(I32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
CACHALOT_SIMD_FN F32x16 ToFloats(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
// Element i of four in lanes 4i ... 4i + 3.
CACHALOT_SIMD_FN F32x16 SpreadFour(__m128 four) {
  const __m256 all = _mm256_castps128_ps256(four);
  return {_mm256_permutevar8x32_ps(all, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),
          _mm256_permutevar8x32_ps(all, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3))};
}

#endif

// ---- The same for both from here on.

CACHALOT_SIMD_FN F32x16 Zero() { return Broadcast(0); }

// The sum of the lanes: halves onto each other until one is left.
CACHALOT_SIMD_FN float Sum(F32x16 a) {
  const __m256 eight = _mm256_add_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// Sum of each of the eight vectors at p, p + stride, ...: the same additions, side by side.
CACHALOT_SIMD_FN __m256 SumEach(const float* p, int64_t stride) {
  __m256 fours[4];  // of vectors i and i + 4
  CACHALOT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const F32x16 a = Load(p + i * stride);
    const F32x16 b = Load(p + (i + 4) * stride);
    const __m256 eight_a = _mm256_add_ps(LowHalf(a), HighHalf(a));
    const __m256 eight_b = _mm256_add_ps(LowHalf(b), HighHalf(b));
    fours[i] = _mm256_add_ps(_mm256_permute2f128_ps(eight_a, eight_b, 0x20),
                             _mm256_permute2f128_ps(eight_a, eight_b, 0x31));
  }
  __m256 twos[2];  // of vectors 2 i, 2 i + 1, 2 i + 4 and 2 i + 5
  CACHALOT_UNROLL
  for (int i = 0; i < 2; ++i) {
    twos[i] = _mm256_add_ps(_mm256_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0x44),
                            _mm256_shuffle_ps(fours[2 * i], fours[2 * i + 1], 0xEE));
  }
  return _mm256_add_ps(_mm256_shuffle_ps(twos[0], twos[1], 0x88),
                       _mm256_shuffle_ps(twos[0], twos[1], 0xDD));
}
CACHALOT_SIMD_FN float MaxOf(F32x16 a) {
  const __m256 eight = _mm256_max_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// ---- Stored values, decoded exactly.

CACHALOT_SIMD_FN __m128i LoadBytes16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}

CACHALOT_SIMD_FN F32x16 LoadBf16(const void* p) {
  return FromBf16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
CACHALOT_SIMD_FN F32x16 LoadInt8(const void* p) { return FromBytes(LoadBytes16(p)); }

// e4m3 times 2^-8: its exponent and mantissa, read as those of a float16, mean that. Multiply by
// kE4m3Unit (or by a scale that has it in). The NaN codes come out as +-480.
constexpr float kE4m3Unit = 256;
CACHALOT_SIMD_FN F32x16 FromE4m3(__m128i codes) {
  const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  return FromF16(_mm256_and_si256(words, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF))));
}
CACHALOT_SIMD_FN F32x16 LoadE4m3(const void* p) { return FromE4m3(LoadBytes16(p)); }

// ue8m0: 2^(code - 127), and NaN for 255.
CACHALOT_SIMD_FN constexpr float FromUe8m0(uint8_t code) {
  const uint32_t bits = code == 255 ? 0x7FC00000U : code == 0 ? 0x00400000U : uint32_t{code} << 23;
  return __builtin_bit_cast(float, bits);
}

// ---- Functions.

// e^a to 2 ulp, over the whole range: 0 and infinity at its ends, NaN for NaN. a = n ln 2 + r with
// |r| <= ln 2 / 2, then e^r by its series (the first term left out is below 2^-27) and 2^n in two
// steps, so that subnormal results are rounded once.
CACHALOT_SIMD_FN F32x16 Exp(F32x16 a) {
  a = Max(Broadcast(-105.0F), Min(Broadcast(90.0F), a));
  const F32x16 n = Round(Mul(a, Broadcast(0x1.715476p+0F)));
  // ln 2 in two parts; the first has 15 bits, so that n times it is exact.
  F32x16 r = FmaNegative(n, Broadcast(0x1.62e4p-1F), a);
  r = FmaNegative(n, Broadcast(0x1.7f7d1cp-20F), r);
  F32x16 p = Broadcast(1.0F / 5040);
  p = Fma(p, r, Broadcast(1.0F / 720));
  p = Fma(p, r, Broadcast(1.0F / 120));
  p = Fma(p, r, Broadcast(1.0F / 24));
  p = Fma(p, r, Broadcast(1.0F / 6));
  p = Fma(p, r, Broadcast(0.5F));
  p = Fma(p, r, Broadcast(1));
  p = Fma(p, r, Broadcast(1));
  const F32x16 half = Round(Mul(n, Broadcast(0.5F)));
  return Mul(Mul(p, PowerOfTwo(half)), PowerOfTwo(Sub(n, half)));
}

// a * sigmoid(a)
CACHALOT_SIMD_FN F32x16 Silu(F32x16 a) { return Div(a, Add(Broadcast(1), Exp(Sub(Zero(), a)))); }

}  // namespace cachalot::cpu::CACHALOT_SIMD
