// Products with fp4 weights, in integers. Twice an e2m1 value is a whole number up to 12. Each 32
// inputs, which share a scale of the weight, become 16-bit fixed point with one power of two; their
// product with 32 weights is then exact, in whatever order it is summed, and is scaled and added in
// float32. The rounding to 16 bits is the only one: about 3e-5 of an input (numbers.R2).
//
// A block of 128 columns is 64 bytes. A dword of them holds 8 neighbouring columns; low and high
// nibbles, even and odd bytes come apart as four vectors of words, each value in the high byte of
// its word. Dword l of the vectors, w0 to w3, holds columns 8 l + ...:
//   w0: 0 4   w1: 2 6   w2: 1 5   w3: 3 7
// A packed block of inputs: the same four vectors of words, then the scale of each dword.
#pragma once

#include "backends/cpu/ops/linear/floats.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

constexpr int kWordVectors = 4;
constexpr int64_t kPackedBlockBytes = (kWordVectors + 1) * 64;

struct FixedWeights {
  I32x16 words[kWordVectors];
};

CACHALOT_SIMD_FN FixedWeights DecodeFixed(const uint8_t* block) {
  const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
  const I32x16 pairs = LoadInts(block);
  const I32x16 even = LookUp(twice, And(pairs, 0x0F0F0F0FU));
  const I32x16 odd = LookUp(twice, And(ShiftWordsRight(pairs, 4), 0x0F0F0F0FU));
  return {{ShiftWordsLeft(even, 8), And(even, 0xFF00FF00U), ShiftWordsLeft(odd, 8),
           And(odd, 0xFF00FF00U)}};
}

// Of four groups: 2^(code - 127), and 0 for code 0.
CACHALOT_SIMD_FN F32x16 GroupScales(const uint8_t* codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, 4);
  const __m128i exponents = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
  return SpreadFour(_mm_castsi128_ps(_mm_slli_epi32(exponents, 23)));
}

// Columns [0, 32) of x as group `group` of a block.
CACHALOT_SIMD_FN void PackGroup(const float* x, int group, uint8_t* packed) {
  const F32x16 first = Load(x);
  const F32x16 second = Load(x + kLanes);
  const float most = MaxOf(Max(Abs(first), Abs(second)));
  // 2^e <= most < 2^(e + 1) becomes [2^14, 2^15). Below 2^-100 it is as good as zero.
  const uint32_t bits = __builtin_bit_cast(uint32_t, most) & 0x7F800000U;
  const bool zero = bits < (27U << 23);
  const float scale = zero ? 0 : __builtin_bit_cast(float, bits - (14U << 23));
  const float inverse = zero ? 0 : __builtin_bit_cast(float, ((2 * 127 + 14U) << 23) - bits);
  const __m128 top = _mm_set1_ps(32767);
  __m128i lanes[4];
  CACHALOT_UNROLL
  for (int i = 0; i < 4; ++i) {
    __m128i four[2];
    CACHALOT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const __m128 value = _mm_mul_ps(_mm_loadu_ps(x + 8 * i + 4 * half), _mm_set1_ps(inverse));
      four[half] = _mm_cvtps_epi32(_mm_min_ps(value, top));
    }
    // Dword k: column k low, column k + 4 high.
    lanes[i] = _mm_blend_epi16(four[0], _mm_slli_epi32(four[1], 16), 0xAA);
  }
  __m128 columns[4] = {_mm_castsi128_ps(lanes[0]), _mm_castsi128_ps(lanes[1]),
                       _mm_castsi128_ps(lanes[2]), _mm_castsi128_ps(lanes[3])};
  _MM_TRANSPOSE4_PS(columns[0], columns[1], columns[2], columns[3]);
  auto* to = reinterpret_cast<float*>(packed + group * 16);
  _mm_storeu_ps(to, columns[0]);
  _mm_storeu_ps(to + kLanes, columns[2]);
  _mm_storeu_ps(to + 2 * kLanes, columns[1]);
  _mm_storeu_ps(to + 3 * kLanes, columns[3]);
  _mm_storeu_ps(to + 4 * kLanes, _mm_set1_ps(scale));
}

int64_t PackedFixedBytes(int64_t cols) { return BlocksOf(cols) * kPackedBlockBytes + 64; }

void PackFixed(const PackTask& task) {
  const float zeros[kFp4BlockSize] = {};
  const int64_t end = task.end < task.cols ? task.end : BlocksOf(task.cols) * kLinearBlock;
  for (int64_t col = task.begin; col < end; col += kFp4BlockSize) {
    PackGroup(col < task.cols ? task.x + col : zeros,
              static_cast<int>(col % kLinearBlock / kFp4BlockSize),
              task.packed + col / kLinearBlock * kPackedBlockBytes);
  }
}

struct FixedProducts {
  static constexpr int64_t kBlockBytes = 64;
  static constexpr int64_t kBlockScales = 4;
  static constexpr int64_t kInputBlockBytes = kPackedBlockBytes;
  static constexpr int64_t kStripRowBytes = kLinearDepth * kPackedBlockBytes + 64;
  static constexpr int kRowsAtOnce = 1;
  static constexpr bool kSharesScales = false;
  static constexpr float kScaleUnit = 1;

  // Half for twice the value, 2^-8 for the high byte.
  CACHALOT_SIMD_MEMBER static float FactorOf(const LinearTask&, int64_t) { return 0x1p-9F; }

  CACHALOT_SIMD_MEMBER static int64_t RowScales(const LinearTask& task) {
    return task.cols / kFp4BlockSize;
  }
  CACHALOT_SIMD_MEMBER static const uint8_t* ScalesOf(const LinearTask& task, int64_t row) {
    return task.scales + row * RowScales(task);
  }

  template <bool>
  CACHALOT_SIMD_MEMBER static void AddBlock(const uint8_t* w, const uint8_t* scales,
                                            const uint8_t* input, F32x16* sum) {
    const FixedWeights weights = DecodeFixed(w);
    I32x16 product = MultiplyWordPairs(weights.words[0], LoadInts(input));
    CACHALOT_UNROLL
    for (int j = 1; j < kWordVectors; ++j) {
      product = AddInts(product, MultiplyWordPairs(weights.words[j], LoadInts(input + j * 64)));
    }
    const auto* input_scales = reinterpret_cast<const float*>(input + kWordVectors * 64);
    *sum = Fma(ToFloats(product), Mul(GroupScales(scales), Load(input_scales)), *sum);
  }

  CACHALOT_SIMD_MEMBER static void DecodeBlock(const uint8_t* w, const uint8_t* scales,
                                               uint8_t* decoded) {
    const FixedWeights weights = DecodeFixed(w);
    CACHALOT_UNROLL
    for (int j = 0; j < kWordVectors; ++j) {
      StoreInts(decoded + j * 64, weights.words[j]);
    }
    Store(reinterpret_cast<float*>(decoded + kWordVectors * 64), GroupScales(scales));
  }

#if defined(__AVX512F__)
  using Words = __m512i;
  CACHALOT_SIMD_MEMBER static Words LoadWords(const uint8_t* p) { return _mm512_loadu_si512(p); }
  CACHALOT_SIMD_MEMBER static Words WordsOf(I32x16 a, int) { return a.v; }
  CACHALOT_SIMD_MEMBER static Words AddDwords(Words a, Words b) { return _mm512_add_epi32(a, b); }
  CACHALOT_SIMD_MEMBER static Words MultiplyPairs(Words a, Words b) {
    return _mm512_madd_epi16(a, b);
  }
  CACHALOT_SIMD_MEMBER static Register Floats(Words a) { return _mm512_cvtepi32_ps(a); }
#else
  using Words = __m256i;
  CACHALOT_SIMD_MEMBER static Words WordsOf(I32x16 a, int part) { return part == 0 ? a.lo : a.hi; }
  CACHALOT_SIMD_MEMBER static Words LoadWords(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  CACHALOT_SIMD_MEMBER static Words AddDwords(Words a, Words b) { return _mm256_add_epi32(a, b); }
  CACHALOT_SIMD_MEMBER static Words MultiplyPairs(Words a, Words b) {
    return _mm256_madd_epi16(a, b);
  }
  CACHALOT_SIMD_MEMBER static Register Floats(Words a) { return _mm256_cvtepi32_ps(a); }
#endif

  CACHALOT_SIMD_MEMBER static Words ProductOf(Words w0, Words w1, Words w2, Words w3,
                                              const uint8_t* input) {
    return AddDwords(
        AddDwords(MultiplyPairs(w0, LoadWords(input)), MultiplyPairs(w1, LoadWords(input + 64))),
        AddDwords(MultiplyPairs(w2, LoadWords(input + 128)),
                  MultiplyPairs(w3, LoadWords(input + 192))));
  }

  static constexpr int TurnRows(int) { return 1; }

  template <int kRows, int kCount>
  CACHALOT_SIMD_MEMBER static void AddRows(const uint8_t* w, const uint8_t* scales, int64_t,
                                           int64_t ahead, int64_t blocks, const uint8_t* const* x,
                                           int64_t x_offset, float* sums, int64_t) {
    static_assert(kRows == 1);
    CACHALOT_UNROLL
    for (int part = 0; part < kParts; ++part) {
      AddPart<kCount>(w, scales, ahead, blocks, x, x_offset, sums, part);
    }
  }

  template <int kCount>
  CACHALOT_SIMD_MEMBER static void AddPart(const uint8_t* w, const uint8_t* scales, int64_t ahead,
                                           int64_t blocks, const uint8_t* const* x,
                                           int64_t x_offset, float* sums, int part) {
    const int lane = part * kRegisterLanes;
    Register acc[kCount];
    const uint8_t* inputs[kCount];
    CACHALOT_UNROLL
    for (int t = 0; t < kCount; ++t) {
      acc[t] = LoadRegister(sums + t * kLanes + lane);
      inputs[t] = x[t] + x_offset + lane * 4;
    }
    for (int64_t block = 0; block < blocks; ++block) {
      if (part == 0) {
        PrefetchBytes<kBlockBytes>(w + ahead);
      }
      const FixedWeights weights = DecodeFixed(w);
      Words words[kWordVectors];
      CACHALOT_UNROLL
      for (int j = 0; j < kWordVectors; ++j) {
        words[j] = WordsOf(weights.words[j], part);
      }
      const Register scale = PartOf(GroupScales(scales), part);
      CACHALOT_UNROLL
      for (int t = 0; t < kCount; ++t) {
        const Words product = ProductOf(words[0], words[1], words[2], words[3], inputs[t]);
        const auto* input_scales = reinterpret_cast<const float*>(inputs[t] + kWordVectors * 64);
        acc[t] =
            FmaRegisters(Floats(product), MulRegisters(scale, LoadRegister(input_scales)), acc[t]);
        inputs[t] += kPackedBlockBytes;
      }
      w += kBlockBytes;
      scales += kBlockScales;
    }
    CACHALOT_UNROLL
    for (int t = 0; t < kCount; ++t) {
      StoreRegister(sums + t * kLanes + lane, acc[t]);
    }
  }

  // The row's words stay in registers while tokens pass.
  static constexpr int kTileRows = 1;
  static constexpr int kTileTokens = 6;

  template <int kCount>
  static void MultiplyTile(const uint8_t* decoded, const uint8_t* const* x, int64_t x_offset,
                           int64_t blocks, float* sums, int64_t) {
    constexpr int64_t kScales = kWordVectors * 64;
    for (int lane = 0; lane < kLanes; lane += kRegisterLanes) {
      Register acc[kCount];
      CACHALOT_UNROLL
      for (int t = 0; t < kCount; ++t) {
        acc[t] = LoadRegister(sums + t * kLanes + lane);
      }
      for (int64_t block = 0; block < blocks; ++block) {
        const uint8_t* w = decoded + block * kPackedBlockBytes + lane * 4;
        const int64_t offset = x_offset + block * kPackedBlockBytes + lane * 4;
        Words words[kWordVectors];
        CACHALOT_UNROLL
        for (int j = 0; j < kWordVectors; ++j) {
          words[j] = LoadWords(w + j * 64);
        }
        const Register scale = LoadRegister(reinterpret_cast<const float*>(w + kScales));
        CACHALOT_UNROLL
        for (int t = 0; t < kCount; ++t) {
          const uint8_t* input = x[t] + offset;
          const Words product = ProductOf(words[0], words[1], words[2], words[3], input);
          const auto* input_scales = reinterpret_cast<const float*>(input + kScales);
          acc[t] = FmaRegisters(Floats(product), MulRegisters(scale, LoadRegister(input_scales)),
                                acc[t]);
        }
      }
      CACHALOT_UNROLL
      for (int t = 0; t < kCount; ++t) {
        StoreRegister(sums + t * kLanes + lane, acc[t]);
      }
    }
  }
};

}  // namespace
}  // namespace cachalot::cpu::CACHALOT_SIMD
