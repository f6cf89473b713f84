// Weights and inputs as AMX tiles take them, one struct per MatrixFormat. 128 columns are steps of
// 64 bytes of a row, in the order in which stored bytes come apart with the fewest instructions;
// word or byte i of step s holds
//   bf16   column 32 s + i
//   fp8    column 64 (s / 2) + 2 i + s % 2
//   fp4    column 4 i + s
//   int8   column 64 s + i
// Packed inputs are in the same order.
//   kBlockBytes        stored bytes of 128 columns of a weight
//   kInputBlockBytes   packed bytes of 128 columns of an input
//   kBlockSteps        steps of 128 columns
//   kIntegers          sums are integers
//   kLimbs             vectors that an input has for each step of the weight, each with its own sum
//   Decode             128 columns of a row, of which `left` bytes are there; zeros after them
//   ScaleOf            what the integers of a packed input are multiplied by
//   InputSteps         the limbs of a step of 16 packed inputs
//   SumsOf             the sums of a row with 16 inputs
#pragma once

#include "backends/cpu/ops/linear/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::amx {
namespace {

constexpr int kTileRows = 16;  // and the most tokens of a tile
constexpr int64_t kStepBytes = 64;

CACHALOT_SIMD_FN int64_t BlocksOf(int64_t cols) { return (cols + kLinearBlock - 1) / kLinearBlock; }

// The first `left` of n elements, as a mask.
CACHALOT_SIMD_FN uint64_t FirstOf(int64_t left, int n) {
  return left >= n ? ~uint64_t{0} >> (64 - n) : left > 0 ? (uint64_t{1} << left) - 1 : 0;
}
CACHALOT_SIMD_FN __m512i LoadBytes(const uint8_t* p, int64_t left) {
  return left >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(FirstOf(left, 64), p);
}
CACHALOT_SIMD_FN __m512i Words(uint32_t bits) {
  return _mm512_set1_epi16(static_cast<int16_t>(bits));
}
CACHALOT_SIMD_FN __m512 LoadFloats(const float* p, int64_t left) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(FirstOf(left, 16)), p);
}

// A scale of 2^(code - 127) as what it adds to the bits of a bf16. Scales beyond 2^117, in either
// direction, count as 2^117: with those the smallest and the largest weight are normal numbers.
CACHALOT_SIMD_FN __m512i ExponentsOf(__m512i codes) {
  const __m512i kept =
      _mm512_min_epi16(_mm512_max_epi16(codes, Words(127 - 117)), Words(127 + 117));
  return _mm512_slli_epi16(_mm512_sub_epi16(kept, Words(127)), 7);
}

// Where words of 32 columns go, if word i of a step holds column kStride i + ...
template <int kStride>
struct WordOrder {
  uint16_t from[32];
  constexpr WordOrder() : from() {
    for (int i = 0; i < 32; ++i) {
      from[i] = static_cast<uint16_t>(i * kStride % 32 + i * kStride / 32);
    }
  }
};

// Inputs in bf16: rounded to it where kParts is 1, at most 2^-8 of each, or as the sum of two, at
// most 2^-16.
template <int kStride, int kParts>
struct Bf16Inputs {
  static constexpr bool kIntegers = false;
  static constexpr int kBlockSteps = 4;
  static constexpr int kLimbs = kParts;
  static constexpr int64_t kPartBytes = kLinearBlock * 2;
  static constexpr int64_t kInputBlockBytes = kPartBytes * kParts;

  static int64_t PackedBytes(int64_t cols) {
    return BlocksOf(cols) * kInputBlockBytes + 64;  // one more line: no power of two
  }

  CACHALOT_SIMD_MEMBER static __m256i ToBf16(__m512 x) {
    return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
  }
  CACHALOT_SIMD_MEMBER static __m512 FromBf16(__m256i words) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }

  static void Pack(const PackTask& task) {
    static constexpr WordOrder<kStride> kOrder;
    constexpr int64_t kUnit = 32 * kStride;
    constexpr int kRun = 64 / kStride;  // bytes of a step
    const __m512i order = _mm512_loadu_si512(kOrder.from);
    const int64_t end = task.end < task.cols ? task.end : BlocksOf(task.cols) * kLinearBlock;
    for (int64_t col = task.begin; col < end; col += 32) {
      __m512 first = LoadFloats(task.x + col, task.cols - col);
      __m512 second = LoadFloats(task.x + col + 16, task.cols - col - 16);
      const int64_t in_block = col % kLinearBlock;
      uint8_t* to = task.packed + col / kLinearBlock * kInputBlockBytes +
                    in_block / kUnit * kUnit * 2 + in_block % kUnit / 32 * kRun;
      for (int part = 0; part < kParts; ++part) {
        const __m256i low = ToBf16(first);
        const __m256i high = ToBf16(second);
        const __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        alignas(64) uint8_t bytes[64];
        _mm512_store_si512(bytes, _mm512_permutexvar_epi16(order, words));
        CACHALOT_UNROLL
        for (int i = 0; i < kStride; ++i) {
          __builtin_memcpy(to + part * kPartBytes + i * kStepBytes, bytes + i * kRun, kRun);
        }
        first = _mm512_sub_ps(first, FromBf16(low));
        second = _mm512_sub_ps(second, FromBf16(high));
      }
    }
  }

  CACHALOT_SIMD_MEMBER static float ScaleOf(const uint8_t*, int64_t) { return 1; }

  struct InputSteps {
    CACHALOT_SIMD_MEMBER InputSteps(const uint8_t* const* x, const float*, int64_t step) {
      const int64_t at = step / kBlockSteps * kInputBlockBytes + step % kBlockSteps * kStepBytes;
      for (int t = 0; t < kTileRows; ++t) {
        for (int part = 0; part < kParts; ++part) {
          rows[part][t] = x[t] + at + part * kPartBytes;
        }
      }
    }
    const uint8_t* rows[kParts][kTileRows];
  };

  CACHALOT_SIMD_MEMBER static __m512 SumsOf(const LinearTask&, int64_t, __mmask16 tokens,
                                            const uint8_t* sums, int64_t tile_bytes, const float*) {
    __m512 sum = _mm512_maskz_loadu_ps(tokens, sums);
    if constexpr (kParts == 2) {
      sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(tokens, sums + tile_bytes));
    }
    return sum;
  }
};

struct Bf16Tiles : Bf16Inputs<1, 2> {
  static constexpr int64_t kBlockBytes = 256;

  CACHALOT_SIMD_MEMBER static const uint8_t* ScalesAt(const LinearTask& task, int64_t, int64_t) {
    return task.values;
  }
  CACHALOT_SIMD_MEMBER static void Decode(const LinearTask&, int64_t, int64_t, const uint8_t* bytes,
                                          int64_t left, uint8_t* to) {
    CACHALOT_UNROLL
    for (int i = 0; i < 4; ++i) {
      _mm512_storeu_si512(to + i * 64, LoadBytes(bytes + i * 64, left - i * 64));
    }
  }
};

// The exponent and the mantissa of an e4m3 are moved to where bf16 has them and the difference of
// the exponents' biases is added; the 7 subnormals are looked up. The NaN codes come out as +-480.
struct Fp8Tiles : Bf16Inputs<2, 2> {
  static constexpr int64_t kBlockBytes = 128;

  CACHALOT_SIMD_MEMBER static const uint8_t* ScalesAt(const LinearTask& task, int64_t row,
                                                      int64_t block) {
    return task.scales + row / kFp8BlockSize * BlocksOf(task.cols) + block;
  }

  // The code in the high byte of each word.
  CACHALOT_SIMD_MEMBER static __m512i DecodeWords(__m512i codes, __m512i scale,
                                                  __m512i subnormals) {
    const __m512i words = _mm512_and_si512(_mm512_srai_epi16(codes, 4), Words(0x87F0));
    const __mmask32 normal = _mm512_test_epi16_mask(words, Words(0x0780));
    const __m512i small = _mm512_permutexvar_epi16(_mm512_srli_epi16(words, 4), subnormals);
    const __m512i bias = _mm512_add_epi16(scale, Words((127 - 7) << 7));
    const __m512i values = _mm512_mask_add_epi16(small, normal, words, bias);
    constexpr int kOrAnd = 0xF8;  // a | (b & c)
    return _mm512_ternarylogic_epi32(values, words, Words(0x8000), kOrAnd);
  }

  CACHALOT_SIMD_MEMBER static void Decode(const LinearTask& task, int64_t row, int64_t block,
                                          const uint8_t* bytes, int64_t left, uint8_t* to) {
    const __m512i scale = ExponentsOf(Words(*ScalesAt(task, row, block)));
    // m 2^-9 in bf16.
    const __m512i ninths = _mm512_zextsi128_si512(
        _mm_setr_epi16(0, 0x3B00, 0x3B80, 0x3BC0, 0x3C00, 0x3C20, 0x3C40, 0x3C60));
    const __m512i subnormals = _mm512_mask_add_epi16(ninths, 0xFE, ninths, scale);
    CACHALOT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const __m512i pairs = LoadBytes(bytes + i * 64, left - i * 64);
      const __m512i odd = _mm512_and_si512(pairs, Words(0xFF00));
      _mm512_storeu_si512(to + i * 128,
                          DecodeWords(_mm512_slli_epi16(pairs, 8), scale, subnormals));
      _mm512_storeu_si512(to + i * 128 + 64, DecodeWords(odd, scale, subnormals));
    }
  }
};

// The low five bits of a word choose among 32: the 16 values, twice, as the fifth bit is another's.
// Most products of the model are fp4: one part of the inputs is enough there, and twice as fast.
struct Fp4Tiles : Bf16Inputs<4, 1> {
  static constexpr int64_t kBlockBytes = 64;

  CACHALOT_SIMD_MEMBER static const uint8_t* ScalesAt(const LinearTask& task, int64_t row,
                                                      int64_t block) {
    return task.scales + row * (task.cols / kFp4BlockSize) + block * 4;
  }

  CACHALOT_SIMD_MEMBER static void Decode(const LinearTask& task, int64_t row, int64_t block,
                                          const uint8_t* bytes, int64_t left, uint8_t* to) {
    alignas(32) static constexpr uint16_t kValues[16] = {
        0x0000, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0,
        0x8000, 0xBF00, 0xBF80, 0xBFC0, 0xC000, 0xC040, 0xC080, 0xC0C0};
    const __m512i values =
        _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(kValues)));
    // Code i in the words of the i-th 16 bytes.
    const __m128i codes = _mm_maskz_loadu_epi8(static_cast<__mmask16>(FirstOf(left / 16, 4)),
                                               ScalesAt(task, row, block));
    constexpr int64_t kOne = 0x0001000100010001;
    constexpr auto kFirst = static_cast<int64_t>(0x8000800080008000U);
    const __m512i spread =
        _mm512_setr_epi64(kFirst, kFirst, kFirst + kOne, kFirst + kOne, kFirst + 2 * kOne,
                          kFirst + 2 * kOne, kFirst + 3 * kOne, kFirst + 3 * kOne);
    const __m512i scale = ExponentsOf(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(codes), spread));
    const __m512i words = LoadBytes(bytes, left);
    CACHALOT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const auto bits = static_cast<unsigned>(4 * i);
      const __m512i value = _mm512_permutexvar_epi16(_mm512_srli_epi16(words, bits), values);
      const __mmask32 nonzero = _mm512_test_epi16_mask(words, Words(7U << bits));
      _mm512_storeu_si512(to + i * 64, _mm512_mask_add_epi16(value, nonzero, value, scale));
    }
  }
};

// Inputs in 16-bit fixed point with one power of two for each: integers x = 256 high + low, low in
// [0, 255], so that both sums of products with bytes are exact. That power is known only when all
// columns are: until then an input is packed as floats, and after them the largest of each 32.
struct Int8Tiles {
  static constexpr bool kIntegers = true;
  static constexpr int64_t kBlockBytes = 128;
  static constexpr int64_t kInputBlockBytes = kLinearBlock * 4;
  static constexpr int kBlockSteps = 2;
  static constexpr int kLimbs = 2;

  static int64_t PackedBytes(int64_t cols) {
    return (BlocksOf(cols) * (kInputBlockBytes + 16) + 63) / 64 * 64;
  }

  static void Pack(const PackTask& task) {
    auto* packed = reinterpret_cast<float*>(task.packed);
    float* most = packed + BlocksOf(task.cols) * kLinearBlock;
    const int64_t end = task.end < task.cols ? task.end : BlocksOf(task.cols) * kLinearBlock;
    for (int64_t col = task.begin; col < end; col += 32) {
      const __m512 first = LoadFloats(task.x + col, task.cols - col);
      const __m512 second = LoadFloats(task.x + col + 16, task.cols - col - 16);
      _mm512_storeu_ps(packed + col, first);
      _mm512_storeu_ps(packed + col + 16, second);
      most[col / 32] =
          _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(first), _mm512_abs_ps(second)));
    }
  }

  // 2^e <= the largest < 2^(e + 1) becomes [2^14, 2^15). Below 2^-100 it is as good as zero.
  CACHALOT_SIMD_MEMBER static float ScaleOf(const uint8_t* packed, int64_t cols) {
    const int64_t groups = BlocksOf(cols) * 4;
    const auto* of_group =
        reinterpret_cast<const float*>(packed + BlocksOf(cols) * kInputBlockBytes);
    __m512 most = _mm512_setzero_ps();
    for (int64_t i = 0; i < groups; i += 16) {
      most = _mm512_max_ps(most, LoadFloats(of_group + i, groups - i));
    }
    const int32_t bits = __builtin_bit_cast(int32_t, _mm512_reduce_max_ps(most)) & 0x7F800000;
    return bits < (27 << 23) ? 0 : __builtin_bit_cast(float, bits - (14 << 23));
  }

  struct InputSteps {
    CACHALOT_SIMD_MEMBER InputSteps(const uint8_t* const* x, const float* scales, int64_t step) {
      for (int t = 0; t < kTileRows; ++t) {
        const auto* from = reinterpret_cast<const float*>(x[t]) + step * 64;
        const __m512 inverse = _mm512_set1_ps(scales[t] == 0 ? 0 : 1 / scales[t]);
        CACHALOT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const __m512 value = _mm512_mul_ps(_mm512_loadu_ps(from + 16 * i), inverse);
          const __m512i fixed = _mm512_cvtps_epi32(_mm512_min_ps(value, _mm512_set1_ps(32767)));
          auto* high = reinterpret_cast<__m128i*>(bytes[0][t] + 16 * i);
          auto* low = reinterpret_cast<__m128i*>(bytes[1][t] + 16 * i);
          _mm_store_si128(high, _mm512_cvtepi32_epi8(_mm512_srai_epi32(fixed, 8)));
          _mm_store_si128(low, _mm512_cvtepi32_epi8(fixed));
        }
        rows[0][t] = bytes[0][t];
        rows[1][t] = bytes[1][t];
      }
    }
    const uint8_t* rows[2][kTileRows];
    alignas(64) uint8_t bytes[2][kTileRows][kStepBytes];
  };

  CACHALOT_SIMD_MEMBER static const uint8_t* ScalesAt(const LinearTask& task, int64_t row,
                                                      int64_t) {
    return task.scales + row * 4;
  }

  CACHALOT_SIMD_MEMBER static void Decode(const LinearTask&, int64_t, int64_t, const uint8_t* bytes,
                                          int64_t left, uint8_t* to) {
    CACHALOT_UNROLL
    for (int i = 0; i < 2; ++i) {
      _mm512_storeu_si512(to + i * 64, LoadBytes(bytes + i * 64, left - i * 64));
    }
  }

  CACHALOT_SIMD_MEMBER static __m512 SumsOf(const LinearTask& task, int64_t row, __mmask16 tokens,
                                            const uint8_t* sums, int64_t tile_bytes,
                                            const float* scales) {
    const __m512 high = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(tokens, sums));
    const __m512 low = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(tokens, sums + tile_bytes));
    const float factor = reinterpret_cast<const float*>(task.scales)[row];
    return _mm512_mul_ps(_mm512_fmadd_ps(high, _mm512_set1_ps(256), low),
                         _mm512_mul_ps(_mm512_loadu_ps(scales), _mm512_set1_ps(factor)));
  }
};

}  // namespace
}  // namespace cachalot::cpu::amx
