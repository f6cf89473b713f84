// Dot products of prepared queries with 16 keys at a time, one way for each form of the keys. All
// sums of integers are exact, so neither the tile nor the instruction set changes a bit. For files
// that may include simd.h.
//
// Keys lie as [width / n][16][n], n columns of a key to four bytes, so that a lane is a key and a
// query's n columns are repeated in all lanes:
//   fp4     n = 4, unsigned bytes; then scales [width / 32][16]
//   int8    n = 2, words; then scales [16]
//   others  n = 1, floats
// A prepared query:
//   fp4     [width] bytes; scales [width / 32]; corrections [width / 32]
//   int8    [width] words; its scale
//   others  [width] floats
#pragma once

#include "backends/cpu/ops/indexer/vector.h"
#include "backends/cpu/ops/rows_simd.h"
#include "backends/cpu/ops/tile_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {

// ---- 64 bytes of integers, four to each of 16 lanes.

#if defined(__AVX512F__)

CACHALOT_SIMD_FN I32x16 Repeat(int32_t a) { return {_mm512_set1_epi32(a)}; }
CACHALOT_SIMD_FN I32x16 AddWords(I32x16 a, I32x16 b) { return {_mm512_add_epi16(a.v, b.v)}; }
// Sums of two products, of unsigned with signed bytes.
CACHALOT_SIMD_FN I32x16 BytePairs(I32x16 a, I32x16 b) { return {_mm512_maddubs_epi16(a.v, b.v)}; }
// Keeps the compiler from summing in another order, for which it would run out of registers.
CACHALOT_SIMD_FN void Settle(I32x16& a) { asm("" : "+v"(a.v)); }

#else

CACHALOT_SIMD_FN I32x16 Repeat(int32_t a) { return {_mm256_set1_epi32(a), _mm256_set1_epi32(a)}; }
CACHALOT_SIMD_FN I32x16 AddWords(I32x16 a, I32x16 b) {
  return {_mm256_add_epi16(a.lo, b.lo), _mm256_add_epi16(a.hi, b.hi)};
}
// Sums of two products, of unsigned with signed bytes.
CACHALOT_SIMD_FN I32x16 BytePairs(I32x16 a, I32x16 b) {
  return {_mm256_maddubs_epi16(a.lo, b.lo), _mm256_maddubs_epi16(a.hi, b.hi)};
}
// Keeps the compiler from summing in another order, for which it would run out of registers.
CACHALOT_SIMD_FN void Settle(I32x16& a) { asm("" : "+x"(a.lo), "+x"(a.hi)); }

#endif

CACHALOT_SIMD_FN int32_t IntAt(const uint8_t* bytes) {
  int32_t value = 0;
  __builtin_memcpy(&value, bytes, sizeof(value));
  return value;
}
CACHALOT_SIMD_FN void PutInt(uint8_t* bytes, int32_t value) {
  __builtin_memcpy(bytes, &value, sizeof(value));
}
CACHALOT_SIMD_FN float FloatAt(const uint8_t* bytes) {
  return __builtin_bit_cast(float, IntAt(bytes));
}
CACHALOT_SIMD_FN void PutFloat(uint8_t* bytes, float value) {
  PutInt(bytes, __builtin_bit_cast(int32_t, value));
}
// `count` rows of 4 * lanes bytes, then zeros up to 16 rows, to [lanes][16].
CACHALOT_SIMD_FN void RowsToLanes(uint8_t* rows, int64_t count, int64_t lanes, uint8_t* out) {
  for (int64_t i = count * lanes; i < kLanes * lanes; i += 8) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + 4 * i), _mm256_setzero_si256());
  }
  RowsToColumns(reinterpret_cast<float*>(rows), lanes, lanes, reinterpret_cast<float*>(out));
}

// ---- fp4: whole numbers -12 ... 12, twice the values, with a scale for 32 columns.

// A key's are moved up by 12 to be unsigned; a query's correction, in the low word of a lane, takes
// 12 times the sum of its numbers off again. Words stay within 2 * 8 * 24 * 12 * 2.
struct Fp4Dots {
  static constexpr int8_t kUp = 12;

  CACHALOT_SIMD_FN int64_t KeyBytes(int64_t width) {
    return kLanes * (width + 4 * (width / kFp4Block));
  }

  // 32 of them, from 16 bytes of pairs.
  CACHALOT_SIMD_FN void Numbers(const uint8_t* pairs, int8_t up, uint8_t* numbers) {
    const __m128i twice = _mm_add_epi8(
        _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), _mm_set1_epi8(up));
    const __m128i nibble = _mm_set1_epi8(0xF);
    const __m128i bytes = LoadBytes16(pairs);
    const __m128i even = _mm_shuffle_epi8(twice, _mm_and_si128(bytes, nibble));
    const __m128i odd = _mm_shuffle_epi8(twice, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
    auto* out = reinterpret_cast<__m128i*>(numbers);
    _mm_storeu_si128(out, _mm_unpacklo_epi8(even, odd));
    _mm_storeu_si128(out + 1, _mm_unpackhi_epi8(even, odd));
  }

  CACHALOT_SIMD_FN void Prepare(const RowLayout& layout, const float* values, uint8_t* query) {
    const int64_t groups = layout.width / kFp4Block;
    uint8_t* scales = query + layout.width;
    uint8_t* corrections = scales + 4 * groups;
    for (int64_t g = 0; g < groups; ++g) {
      uint8_t pairs[kFp4Block / 2];
      const float scale = ScaleOf(EncodeFp4Block(values + g * kFp4Block, pairs));
      PutFloat(scales + 4 * g, scale / 4);  // both numbers are twice their values
      uint8_t* numbers = query + g * kFp4Block;
      Numbers(pairs, 0, numbers);
      int32_t sum = 0;
      for (int64_t i = 0; i < kFp4Block; ++i) {
        sum += static_cast<int8_t>(numbers[i]);
      }
      PutInt(corrections + 4 * g, -kUp * sum & 0xFFFF);
    }
  }

  CACHALOT_SIMD_FN void Keys(const RowLayout& layout, const void* const* rows, int64_t count,
                             uint8_t* decoded, uint8_t* keys) {
    const int64_t width = layout.width;
    auto* scales = reinterpret_cast<float*>(keys + kLanes * width);
    for (int64_t i = 0; i < kLanes * (width / kFp4Block); i += kLanes) {
      Store(scales + i, Zero());
    }
    for (int64_t row = 0; row < count; ++row) {
      const auto* bytes = static_cast<const uint8_t*>(rows[row]);
      for (int64_t g = 0; g < width / kFp4Block; ++g) {
        Numbers(bytes + g * kFp4Block / 2, kUp, decoded + row * width + g * kFp4Block);
        scales[g * kLanes + row] = FromUe8m0(bytes[width / 2 + g]);
      }
    }
    RowsToLanes(decoded, count, width / 4, keys);
  }

  template <int kHeads>
  CACHALOT_SIMD_FN void Dots(int64_t width, const uint8_t* queries, int64_t query_bytes,
                             const uint8_t* keys, F32x16* dots) {
    const auto* key_scales = reinterpret_cast<const float*>(keys + kLanes * width);
    const int64_t groups = width / kFp4Block;
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      dots[h] = Zero();
    }
    for (int64_t g = 0; g < groups; ++g) {
      I32x16 sums[kHeads];
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        sums[h] = Repeat(IntAt(queries + h * query_bytes + width + 4 * (groups + g)));
      }
#pragma GCC unroll 8
      for (int64_t i = 0; i < kFp4Block; i += 4) {
        const I32x16 key = LoadInts(keys + (g * kFp4Block + i) * kLanes);
#pragma GCC unroll 8
        for (int h = 0; h < kHeads; ++h) {
          const I32x16 query = Repeat(IntAt(queries + h * query_bytes + g * kFp4Block + i));
          sums[h] = AddWords(sums[h], BytePairs(key, query));
          Settle(sums[h]);
        }
      }
      const F32x16 key_scale = Load(key_scales + g * kLanes);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        const F32x16 whole = ToFloats(MultiplyWordPairs(sums[h], Repeat(0x00010001)));
        const float scale = FloatAt(queries + h * query_bytes + width + 4 * g);
        dots[h] = Fma(Mul(whole, Broadcast(scale)), key_scale, dots[h]);
      }
    }
  }
};

// ---- int8, with one scale for the row.

struct Int8Dots {
  CACHALOT_SIMD_FN int64_t KeyBytes(int64_t width) { return kLanes * (2 * width + 4); }

  CACHALOT_SIMD_FN void Words(const uint8_t* codes, int64_t width, uint8_t* words) {
    for (int64_t i = 0; i < width; i += kLanes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 2 * i),
                          _mm256_cvtepi8_epi16(LoadBytes16(codes + i)));
    }
  }

  // The codes are written where the words' second half goes: each is read before it is overwritten.
  CACHALOT_SIMD_FN void Prepare(const RowLayout& layout, const float* values, uint8_t* query) {
    uint8_t* codes = query + layout.width;
    EncodeInt8(layout, values, codes);
    const float scale = HalfAt(codes + layout.width);
    Words(codes, layout.width, query);
    PutFloat(query + 2 * layout.width, scale);
  }

  CACHALOT_SIMD_FN void Keys(const RowLayout& layout, const void* const* rows, int64_t count,
                             uint8_t* decoded, uint8_t* keys) {
    const int64_t width = layout.width;
    auto* scales = reinterpret_cast<float*>(keys + kLanes * 2 * width);
    Store(scales, Zero());
    for (int64_t row = 0; row < count; ++row) {
      const auto* codes = static_cast<const uint8_t*>(rows[row]);
      Words(codes, width, decoded + row * 2 * width);
      scales[row] = HalfAt(codes + width);
    }
    RowsToLanes(decoded, count, width / 2, keys);
  }

  template <int kHeads>
  CACHALOT_SIMD_FN void Dots(int64_t width, const uint8_t* queries, int64_t query_bytes,
                             const uint8_t* keys, F32x16* dots) {
    I32x16 sums[kHeads];
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      sums[h] = Repeat(0);
    }
    for (int64_t i = 0; i < 2 * width; i += 4) {
      const I32x16 key = LoadInts(keys + i * kLanes);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        const I32x16 query = Repeat(IntAt(queries + h * query_bytes + i));
        sums[h] = AddInts(sums[h], MultiplyWordPairs(key, query));
      }
    }
    const F32x16 key_scale = Load(reinterpret_cast<const float*>(keys + kLanes * 2 * width));
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const float scale = FloatAt(queries + h * query_bytes + 2 * width);
      dots[h] = Mul(Mul(ToFloats(sums[h]), Broadcast(scale)), key_scale);
    }
  }
};

// ---- Anything else, as floats.

struct FloatDots {
  CACHALOT_SIMD_FN int64_t KeyBytes(int64_t width) { return kLanes * 4 * width; }

  CACHALOT_SIMD_FN void Prepare(const RowLayout& layout, const float* values, uint8_t* query) {
    RoundRow(layout, values, reinterpret_cast<float*>(query));
  }

  CACHALOT_SIMD_FN void Keys(const RowLayout& layout, const void* const* rows, int64_t count,
                             uint8_t* decoded, uint8_t* keys) {
    for (int64_t row = 0; row < count; ++row) {
      DecodeRow(layout, rows[row], reinterpret_cast<float*>(decoded) + row * layout.width);
    }
    RowsToLanes(decoded, count, layout.width, keys);
  }

  template <int kHeads>
  CACHALOT_SIMD_FN void Dots(int64_t width, const uint8_t* queries, int64_t query_bytes,
                             const uint8_t* keys, F32x16* dots) {
    Tile<kHeads, 1> tile;
    Clear(tile);
    AddProduct(tile, reinterpret_cast<const float*>(queries), query_bytes / 4,
               reinterpret_cast<const float*>(keys), kLanes, 0, width);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      dots[h] = tile.sums[h][0];
    }
  }
};

}  // namespace cachalot::cpu::CACHALOT_SIMD
