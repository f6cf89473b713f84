// The kernels, compiled by avx2.cc and avx512.cc. Heads and keys are taken in tiles whose sums stay
// in registers. Each sum runs over its own row in one order, so tiles change no bit.
#pragma once

#include "backends/cpu/ops/attention/vector.h"
#include "backends/cpu/ops/rows_simd.h"
#include "backends/cpu/ops/tile_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

// Heads of a tile; vectors of columns of a tile of values.
#if defined(__AVX512F__)
constexpr int kTileHeads = 6;
constexpr int kTileVectors = 4;
#else
constexpr int kTileHeads = 3;
constexpr int kTileVectors = 2;
#endif
// While all heads pass over them, so many keys, and so many columns of a block, stay in the L1
// cache.
constexpr int64_t kCachedKeys = 8;
constexpr int64_t kCachedVectors = 4;

CACHALOT_SIMD_FN int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// Calls body.Run<heads>(head) for tiles that cover `heads`. No tile of one head, whose few sums
// would wait for each other, where there are more.
template <typename Body>
CACHALOT_SIMD_FN void ForEachHeadTile(int64_t heads, const Body& body) {
  int64_t head = 0;
  for (; heads - head >= kTileHeads && heads - head != kTileHeads + 1; head += kTileHeads) {
    body.template Run<kTileHeads>(head);
  }
  for (; heads - head >= 2; head += 2) {
    body.template Run<2>(head);
  }
  if (head < heads) {
    body.template Run<1>(head);
  }
}

// Rows lie anywhere in a large pool, so the next but one is asked for meanwhile.
void Decode(const DecodeKeys& task) {
  constexpr int64_t kAhead = 2;
  constexpr int64_t kLineBytes = 64;
  for (int64_t i = 0; i < task.count; ++i) {
    if (i + kAhead < task.count) {
      const auto* later = static_cast<const char*>(task.rows[i + kAhead]);
      for (int64_t byte = 0; byte < task.row_bytes; byte += kLineBytes) {
        _mm_prefetch(later + byte, _MM_HINT_T0);
      }
    }
    DecodeRow(task.layout, task.rows[i], task.out + i * task.stride);
  }
}

void Begin(const AttentionHeads& heads) {
  for (int64_t h = 0; h < heads.heads; ++h) {
    heads.top[h] = heads.sink[h];
    heads.total[h] = 1;
    for (int64_t i = 0; i < heads.width; i += kLanes) {
      Store(heads.sums + h * heads.stride + i, Zero());
    }
  }
}

// ---- Scores.

// q . key for four keys and some heads: 16 sums each over every 16th product, added up to eight.
template <int kHeads>
struct ScoreSums {
  __m256 eight[kHeads][kScoreKeys];
};

#if defined(__AVX512F__)

template <int kHeads>
CACHALOT_SIMD_FN void SumProducts(const float* q, const float* keys, int64_t width, int64_t stride,
                                  ScoreSums<kHeads>& out) {
  F32x16 sums[kHeads][kScoreKeys];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int k = 0; k < kScoreKeys; ++k) {
      sums[h][k] = Zero();
    }
  }
  for (int64_t i = 0; i < width; i += kLanes) {
    F32x16 key[kScoreKeys];
#pragma GCC unroll 4
    for (int k = 0; k < kScoreKeys; ++k) {
      key[k] = Load(keys + k * stride + i);
    }
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const F32x16 value = Load(q + h * width + i);
#pragma GCC unroll 4
      for (int k = 0; k < kScoreKeys; ++k) {
        sums[h][k] = Fma(value, key[k], sums[h][k]);
      }
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int k = 0; k < kScoreKeys; ++k) {
      out.eight[h][k] = _mm256_add_ps(LowHalf(sums[h][k]), HighHalf(sums[h][k]));
    }
  }
}

#else

// The sums of eight lanes of every 16, which is what the registers hold for 12 pairs.
template <int kHeads>
CACHALOT_SIMD_FN void SumHalf(const float* q, const float* keys, int64_t width, int64_t stride,
                              ScoreSums<kHeads>& out) {
  __m256 sums[kHeads][kScoreKeys];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int k = 0; k < kScoreKeys; ++k) {
      sums[h][k] = _mm256_setzero_ps();
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < width; i += kLanes) {
    __m256 value[kHeads];
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      value[h] = _mm256_loadu_ps(q + h * width + i);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kScoreKeys; ++k) {
      const __m256 key = _mm256_loadu_ps(keys + k * stride + i);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        sums[h][k] = _mm256_fmadd_ps(value[h], key, sums[h][k]);
      }
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int k = 0; k < kScoreKeys; ++k) {
      out.eight[h][k] = sums[h][k];
    }
  }
}

template <int kHeads>
CACHALOT_SIMD_FN void SumProducts(const float* q, const float* keys, int64_t width, int64_t stride,
                                  ScoreSums<kHeads>& out) {
  ScoreSums<kHeads> high;
  SumHalf(q, keys, width, stride, out);
  SumHalf(q + 8, keys + 8, width, stride, high);
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int k = 0; k < kScoreKeys; ++k) {
      out.eight[h][k] = _mm256_add_ps(out.eight[h][k], high.eight[h][k]);
    }
  }
}

#endif

// The sums of eight lanes of four vectors, each as Sum() adds them.
CACHALOT_SIMD_FN __m128 SumLanes(const __m256* eight) {
  __m128 four[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    four[k] = _mm_add_ps(_mm256_castps256_ps128(eight[k]), _mm256_extractf128_ps(eight[k], 1));
  }
  const __m128 first =
      _mm_add_ps(_mm_unpacklo_ps(four[0], four[1]), _mm_unpackhi_ps(four[0], four[1]));
  const __m128 second =
      _mm_add_ps(_mm_unpacklo_ps(four[2], four[3]), _mm_unpackhi_ps(four[2], four[3]));
  return _mm_add_ps(_mm_movelh_ps(first, second), _mm_movehl_ps(second, first));
}

// The published width is a constant: the ends of loops that long are not foreseen.
template <int64_t kWidth>
struct ScoreTile {
  const AttentionHeads& heads;
  const KeyBlock& block;
  int64_t begin;  // keys [begin, end)
  int64_t end;

  template <int kHeads>
  void Run(int64_t head) const {
    for (int64_t key = begin; key < end; key += kScoreKeys) {
      ScoreSums<kHeads> sums;
      SumProducts(heads.q + head * heads.width, block.keys + key * heads.stride,
                  kWidth > 0 ? kWidth : heads.width, heads.stride, sums);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        _mm_storeu_ps(heads.scores + (head + h) * kBlockKeys + key,
                      _mm_mul_ps(SumLanes(sums.eight[h]), _mm_set1_ps(block.scale)));
      }
    }
  }
};

// Raises top to the largest score so far; what was summed before is to be multiplied by rescale.
CACHALOT_SIMD_FN void RaiseTops(const AttentionHeads& heads, int64_t padded) {
  for (int64_t h = 0; h < heads.heads; ++h) {
    F32x16 top = Broadcast(heads.top[h]);
    for (int64_t key = 0; key < padded; key += kLanes) {
      top = Max(Load(heads.scores + h * kBlockKeys + key), top);
    }
    const float raised = MaxOf(top);
    heads.rescale[h] = heads.top[h] - raised;
    heads.top[h] = raised;
  }
  for (int64_t h = 0; h < heads.heads; h += kLanes) {
    const int count = static_cast<int>(Least(heads.heads - h, kLanes));
    StoreFirst(heads.rescale + h, Exp(LoadFirst(heads.rescale + h, count)), count);
  }
}

// Scores become p.
CACHALOT_SIMD_FN void ScoresToWeights(const AttentionHeads& heads, int64_t count) {
  const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int64_t h = 0; count < padded && h < heads.heads; ++h) {
    for (int64_t key = count; key < padded; ++key) {
      heads.scores[h * kBlockKeys + key] = -__builtin_inff();
    }
  }
  RaiseTops(heads, padded);
  for (int64_t h = 0; h < heads.heads; ++h) {
    float* scores = heads.scores + h * kBlockKeys;
    const F32x16 top = Broadcast(heads.top[h]);
    F32x16 total = Zero();
    for (int64_t key = 0; key < padded; key += kLanes) {
      const F32x16 weight = Exp(Sub(Load(scores + key), top));
      Store(scores + key, weight);
      total = Add(total, weight);
    }
    heads.total[h] = __builtin_fmaf(heads.total[h], heads.rescale[h], Sum(total));
  }
}

// ---- Values.

struct ValueTile {
  const AttentionHeads& heads;
  const KeyBlock& block;
  int64_t begin;  // vectors of columns [begin, end)
  int64_t end;

  template <int kHeads>
  void Run(int64_t head) const {
    int64_t vector = begin;
    for (; vector + kTileVectors <= end; vector += kTileVectors) {
      AddValues<kHeads, kTileVectors>(head, vector);
    }
    for (; vector < end; ++vector) {
      AddValues<kHeads, 1>(head, vector);
    }
  }

  template <int kHeads, int kVectors>
  void AddValues(int64_t head, int64_t vector) const {
    Tile<kHeads, kVectors> tile;
    float* sums = heads.sums + head * heads.stride + vector * kLanes;
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const F32x16 rescale = Broadcast(heads.rescale[head + h]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        tile.sums[h][v] = Mul(Load(sums + h * heads.stride + v * kLanes), rescale);
      }
    }
    AddProduct(tile, heads.scores + head * kBlockKeys, kBlockKeys, block.keys + vector * kLanes,
               heads.stride, kLanes, block.count);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Store(sums + h * heads.stride + v * kLanes, tile.sums[h][v]);
      }
    }
  }
};

template <int64_t kWidth>
void ScoreKeys(const AttentionHeads& heads, const KeyBlock& block) {
  for (int64_t key = 0; key < block.count; key += kCachedKeys) {
    ForEachHeadTile(heads.heads,
                    ScoreTile<kWidth>{heads, block, key, Least(key + kCachedKeys, block.count)});
  }
}

void Attend(const AttentionHeads& heads, const KeyBlock& block) {
  if (heads.width == 512) {
    ScoreKeys<512>(heads, block);
  } else {
    ScoreKeys<0>(heads, block);
  }
  ScoresToWeights(heads, block.count);
  const int64_t vectors = heads.width / kLanes;
  for (int64_t vector = 0; vector < vectors; vector += kCachedVectors) {
    ForEachHeadTile(heads.heads,
                    ValueTile{heads, block, vector, Least(vector + kCachedVectors, vectors)});
  }
}

void Finish(const AttentionHeads& heads) {
  for (int64_t h = 0; h < heads.heads; ++h) {
    const F32x16 inverse = Broadcast(1 / heads.total[h]);
    for (int64_t i = 0; i < heads.width; i += kLanes) {
      Store(heads.o + h * heads.width + i, Mul(Load(heads.sums + h * heads.stride + i), inverse));
    }
  }
}

}  // namespace

AttentionKernels Attention() { return {Decode, Begin, Attend, Finish}; }

}  // namespace cachalot::cpu::CACHALOT_SIMD
