// The inner loop of a product with many tokens: a quad of decoded rows times a few tokens, all of
// their sums in registers.
//
// AVX2 has 16 registers of 8 lanes. A tile of 4 rows x 3 tokens with both halves of its 16-lane
// sums would need 24, so it is done one half after the other: 12 sums, 3 registers of x, 1 of
// weights, and 7 loads for 12 Fma. AVX-512 has 32 of 16 lanes: 4 x 6 sums, 6 of x, 1 of weights.
// Which lanes are done first changes no sum.
#pragma once

#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

constexpr int64_t kQuad = 4;

#if defined(__AVX512F__)

using Register = __m512;
constexpr int64_t kTileTokens = 6;
constexpr int64_t kRegisterLanes = 16;
CACHALOT_SIMD_FN Register LoadRegister(const float* p) { return _mm512_loadu_ps(p); }
CACHALOT_SIMD_FN void StoreRegister(float* p, Register a) { _mm512_storeu_ps(p, a); }
CACHALOT_SIMD_FN Register FmaRegister(Register a, Register b, Register c) {
  return _mm512_fmadd_ps(a, b, c);
}

#else

using Register = __m256;
constexpr int64_t kTileTokens = 3;
constexpr int64_t kRegisterLanes = 8;
CACHALOT_SIMD_FN Register LoadRegister(const float* p) { return _mm256_loadu_ps(p); }
CACHALOT_SIMD_FN void StoreRegister(float* p, Register a) { _mm256_storeu_ps(p, a); }
CACHALOT_SIMD_FN Register FmaRegister(Register a, Register b, Register c) {
  return _mm256_fmadd_ps(a, b, c);
}

#endif

// sums[token][row][lane] += w[row][c] * x[token][c] for lane = c % 16; `cols` a multiple of 16.
template <int kTokens>
void MultiplyTile(const float* w, const float* x, int64_t cols, float* sums) {
  for (int64_t lane = 0; lane < kLanes; lane += kRegisterLanes) {
    Register acc[kTokens][kQuad];
    CACHALOT_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      CACHALOT_UNROLL
      for (int r = 0; r < kQuad; ++r) {
        acc[t][r] = LoadRegister(sums + (t * kQuad + r) * kLanes + lane);
      }
    }
    for (int64_t c = lane; c < cols; c += kLanes) {
      Register token[kTokens];
      CACHALOT_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        token[t] = LoadRegister(x + t * cols + c);
      }
      CACHALOT_UNROLL
      for (int r = 0; r < kQuad; ++r) {
        const Register row = LoadRegister(w + r * cols + c);
        CACHALOT_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          acc[t][r] = FmaRegister(row, token[t], acc[t][r]);
        }
      }
    }
    CACHALOT_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      CACHALOT_UNROLL
      for (int r = 0; r < kQuad; ++r) {
        StoreRegister(sums + (t * kQuad + r) * kLanes + lane, acc[t][r]);
      }
    }
  }
}

// For `tokens` in [1, kTileTokens].
CACHALOT_SIMD_FN void MultiplyTile(int64_t tokens, const float* w, const float* x, int64_t cols,
                                   float* sums) {
  switch (tokens) {
    case 1:
      return MultiplyTile<1>(w, x, cols, sums);
    case 2:
      return MultiplyTile<2>(w, x, cols, sums);
    case 3:
      return MultiplyTile<3>(w, x, cols, sums);
#if defined(__AVX512F__)
    case 4:
      return MultiplyTile<4>(w, x, cols, sums);
    case 5:
      return MultiplyTile<5>(w, x, cols, sums);
    case 6:
      return MultiplyTile<6>(w, x, cols, sums);
#endif
  }
}

}  // namespace
}  // namespace cachalot::cpu::CACHALOT_SIMD
