// The probes, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/limits/probes.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

uint64_t Read(const void* data, int64_t bytes) {
  const auto* at = static_cast<const __m256i*>(data);
  const auto* end = at + bytes / static_cast<int64_t>(sizeof(__m256i));
  __m256i a = _mm256_setzero_si256();
  __m256i b = a;
  __m256i c = a;
  __m256i d = a;
  for (; at != end; at += 8) {
    a = _mm256_xor_si256(a, _mm256_xor_si256(_mm256_load_si256(at), _mm256_load_si256(at + 4)));
    b = _mm256_xor_si256(b, _mm256_xor_si256(_mm256_load_si256(at + 1), _mm256_load_si256(at + 5)));
    c = _mm256_xor_si256(c, _mm256_xor_si256(_mm256_load_si256(at + 2), _mm256_load_si256(at + 6)));
    d = _mm256_xor_si256(d, _mm256_xor_si256(_mm256_load_si256(at + 3), _mm256_load_si256(at + 7)));
  }
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0) ^ _mm256_extract_epi64(all, 1) ^
                               _mm256_extract_epi64(all, 2) ^ _mm256_extract_epi64(all, 3));
}

// Independent sums: more than latency times issue width, fewer than there are registers.
#if defined(__AVX512F__)
constexpr int kSums = 16;
#else
constexpr int kSums = 6;
#endif

double MultiplyAdd(int64_t rounds) {
  F32x16 sums[kSums];
  const F32x16 factor = Broadcast(0.999F);
  const F32x16 term = Broadcast(1e-3F);
  for (int i = 0; i < kSums; ++i) {
    sums[i] = Broadcast(static_cast<float>(i));
  }
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = Fma(sums[i], factor, term);
    }
  }
  double total = 0;
  for (int i = 0; i < kSums; ++i) {
    total += Sum(sums[i]);
  }
  return total;
}

}  // namespace

const Probes kProbes = {Read, {MultiplyAdd, 2 * kSums* kLanes}};

}  // namespace cachalot::cpu::CACHALOT_SIMD
