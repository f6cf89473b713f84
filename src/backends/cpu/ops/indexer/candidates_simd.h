// The largest of a stream of scores. Scores become integers of the same order, so that the largest
// are found by counting, eight at a time and without sorting. For files that may include simd.h.
#pragma once

#include "backends/cpu/ops/indexer/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {

// Below the key of every score.
constexpr int32_t kNoKey = INT32_MIN;

// -0 is 0, and NaN counts as -infinity.
CACHALOT_SIMD_FN __m256i KeysOf(__m256 scores) {
  const __m256 nan = _mm256_cmp_ps(scores, scores, _CMP_UNORD_Q);
  const __m256 plain = _mm256_blendv_ps(_mm256_add_ps(scores, _mm256_setzero_ps()),
                                        _mm256_set1_ps(-__builtin_inff()), nan);
  const __m256i bits = _mm256_castps_si256(plain);
  return _mm256_xor_si256(bits, _mm256_srli_epi32(_mm256_srai_epi32(bits, 31), 1));
}

CACHALOT_SIMD_FN __m256i LoadEight(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
CACHALOT_SIMD_FN void StoreEight(int32_t* p, __m256i a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
}

// Takes up the scores of entries first_entry, first_entry + 1, ... that are above what is beaten;
// `scores` has room up to a multiple of 8.
CACHALOT_SIMD_FN void Offer(Candidates& candidates, const float* scores, int64_t count,
                            int64_t first_entry) {
  const __m256i beaten = _mm256_set1_epi32(candidates.beaten);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  for (int64_t i = 0; i < count; i += 8) {
    const __m256i keys = KeysOf(_mm256_loadu_ps(scores + i));
    const __m256i above = _mm256_cmpgt_epi32(keys, beaten);
    auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(above)));
    if (count - i < 8) {
      mask &= (1U << (count - i)) - 1U;
    }
    const auto entry = static_cast<int32_t>(first_entry + i);
    if (mask == 0xFF) {
      StoreEight(candidates.keys + candidates.count, keys);
      StoreEight(candidates.entries + candidates.count,
                 _mm256_add_epi32(_mm256_set1_epi32(entry), lanes));
      candidates.count += 8;
      continue;
    }
    int32_t eight[8];
    StoreEight(eight, keys);
    for (; mask != 0; mask &= mask - 1) {
      const int lane = __builtin_ctz(mask);
      candidates.keys[candidates.count] = eight[lane];
      candidates.entries[candidates.count] = entry + lane;
      ++candidates.count;
    }
  }
}

// How many of `count` keys, a multiple of 8, are at least `least`.
CACHALOT_SIMD_FN int64_t CountAtLeast(const int32_t* keys, int64_t count, int32_t least) {
  const __m256i below = _mm256_set1_epi32(least - 1);
  __m256i found = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += 8) {
    found = _mm256_sub_epi32(found, _mm256_cmpgt_epi32(LoadEight(keys + i), below));
  }
  int32_t lanes[8];
  StoreEight(lanes, found);
  int64_t sum = 0;
  for (const int32_t lane : lanes) {
    sum += lane;
  }
  return sum;
}

// Keeps the top_k largest, of equal ones those that came first, in the order in which they came.
[[maybe_unused]] static void KeepLargest(Candidates& candidates, int64_t top_k) {
  if (candidates.count <= top_k) {
    return;
  }
  StoreEight(candidates.keys + candidates.count, _mm256_set1_epi32(kNoKey));
  const int64_t padded = (candidates.count + 7) / 8 * 8;
  // The largest level that top_k keys reach, bit by bit from the top, or one that just those reach.
  int32_t level = kNoKey;
  int64_t reached = candidates.count;
  for (int bit = 31; bit >= 0 && reached > top_k; --bit) {
    const auto higher = static_cast<int32_t>(static_cast<uint32_t>(level) + (1U << bit));
    const int64_t count = CountAtLeast(candidates.keys, padded, higher);
    if (count >= top_k) {
      level = higher;
      reached = count;
    }
  }
  int64_t at_level = top_k;
  if (reached > top_k) {
    at_level -= CountAtLeast(candidates.keys, padded, level + 1);
  }
  int64_t kept = 0;
  for (int64_t i = 0; i < candidates.count; ++i) {
    const int32_t key = candidates.keys[i];
    candidates.keys[kept] = key;
    candidates.entries[kept] = candidates.entries[i];
    const int equal = static_cast<int>(key == level) & static_cast<int>(at_level > 0);
    at_level -= equal;
    kept += static_cast<int>(key > level) | equal;
  }
  candidates.count = kept;
  candidates.beaten = level;
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
