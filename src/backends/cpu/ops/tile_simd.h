// The inner product of attention and indexer: a few rows of one matrix against one or two vectors
// of columns of another, all sums in registers. Each element is summed along the depth in rising
// order, so the size of the tile changes no bit. For files that may include simd.h.
#pragma once

#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {

template <int kRows, int kVectors>
struct Tile {
  F32x16 sums[kRows][kVectors];
};

template <int kRows, int kVectors>
CACHALOT_SIMD_FN void Clear(Tile<kRows, kVectors>& tile) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      tile.sums[r][v] = Zero();
    }
  }
}

// sums[r][v] += sum over k of left[r * left_stride + k] * (16 at right + v * vector_stride + k *
// stride).
template <int kRows, int kVectors>
CACHALOT_SIMD_FN void AddProduct(Tile<kRows, kVectors>& tile, const float* left,
                                 int64_t left_stride, const float* right, int64_t stride,
                                 int64_t vector_stride, int64_t depth) {
  Tile<kRows, kVectors> sums = tile;
  for (int64_t k = 0; k < depth; ++k) {
    F32x16 columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      columns[v] = Load(right + v * vector_stride + k * stride);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F32x16 value = Broadcast(left[r * left_stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums.sums[r][v] = Fma(value, columns[v], sums.sums[r][v]);
      }
    }
  }
  tile = sums;
}

// ---- Rows to columns.

CACHALOT_SIMD_FN void TransposeEight(const float* rows, int64_t stride, float* columns) {
  __m256 row[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    row[i] = _mm256_loadu_ps(rows + i * stride);
  }
  __m256 pair[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  __m256 four[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
    four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(columns + i * kLanes, _mm256_permute2f128_ps(four[i], four[i + 4], 0x20));
    _mm256_storeu_ps(columns + (i + 4) * kLanes,
                     _mm256_permute2f128_ps(four[i], four[i + 4], 0x31));
  }
}

// 16 rows of `width` values (a multiple of 8) become [width][16].
[[maybe_unused]] static void RowsToColumns(const float* rows, int64_t stride, int64_t width,
                                           float* columns) {
  for (int64_t i = 0; i < width; i += 8) {
    TransposeEight(rows + i, stride, columns + i * kLanes);
    TransposeEight(rows + 8 * stride + i, stride, columns + i * kLanes + 8);
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
