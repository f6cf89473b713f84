#include <immintrin.h>

#include "backends/cpu/limits/probes.h"

namespace cachalot::cpu::avx512_vnni {
namespace {

constexpr int kSums = 16;  // more than latency times issue width, fewer than there are registers

double MultiplyAdd(int64_t rounds) {
  __m512i sums[kSums];
  const __m512i left = _mm512_set1_epi8(1);
  const __m512i right = _mm512_set1_epi32(0x02FE0101);  // 1, 1, -2, 2: 2 for each sum
  for (__m512i& sum : sums) {
    sum = _mm512_setzero_si512();
  }
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], left, right);
      __asm__("" : "+v"(sums[i]));  // each is carried out
    }
  }
  double total = 0;
  for (const __m512i& sum : sums) {
    alignas(64) int32_t values[16];
    _mm512_store_si512(values, sum);
    for (const int32_t value : values) {
      total += value;
    }
  }
  return total;
}

}  // namespace

const Peak kInt8 = {MultiplyAdd, 2 * kSums * 64};

}  // namespace cachalot::cpu::avx512_vnni
