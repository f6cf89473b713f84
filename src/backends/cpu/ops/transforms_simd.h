// What happens to one row of floats before it is kept or scored: norm, rotation, Hadamard. For
// files that may include simd.h. Steps inside eight lanes are written on AVX2 for both instruction
// sets.
#pragma once

#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {

// y = weight * x / sqrt(mean(x^2) + eps); no weight: all ones; y may be x.
[[maybe_unused]] static void NormRow(const float* x, const float* weight, float* y, int64_t width,
                                     double eps) {
  F32x16 squares[4] = {Zero(), Zero(), Zero(), Zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    for (int part = 0; part < 4; ++part) {
      const F32x16 value = Load(x + i + part * kLanes);
      squares[part] = Fma(value, value, squares[part]);
    }
  }
  for (; i < width; i += kLanes) {
    const int count = static_cast<int>(width - i < kLanes ? width - i : kLanes);
    const F32x16 value = LoadFirst(x + i, count);
    squares[0] = Fma(value, value, squares[0]);
  }
  const float sum = Sum(Add(Add(squares[0], squares[1]), Add(squares[2], squares[3])));
  const double mean = static_cast<double>(sum) / static_cast<double>(width);
  const F32x16 inverse = Broadcast(static_cast<float>(1 / __builtin_sqrt(mean + eps)));
  for (i = 0; i + kLanes <= width; i += kLanes) {
    F32x16 value = Mul(Load(x + i), inverse);
    if (weight != nullptr) {
      value = Mul(value, Load(weight + i));
    }
    Store(y + i, value);
  }
  if (i < width) {
    const int count = static_cast<int>(width - i);
    F32x16 value = Mul(LoadFirst(x + i, count), inverse);
    if (weight != nullptr) {
      value = Mul(value, LoadFirst(weight + i, count));
    }
    StoreFirst(y + i, value, count);
  }
}

// Turns the pairs of `dim` values. cosines[i] and sines[i] belong to value i, so each stands twice,
// and the sine of the even value is negative.
[[maybe_unused]] static void RotatePairs(float* x, const float* cosines, const float* sines,
                                         int64_t dim) {
  int64_t i = 0;
  for (; i + 8 <= dim; i += 8) {
    const __m256 value = _mm256_loadu_ps(x + i);
    const __m256 partner = _mm256_permute_ps(value, 0xB1);
    const __m256 turned = _mm256_mul_ps(partner, _mm256_loadu_ps(sines + i));
    _mm256_storeu_ps(x + i, _mm256_fmadd_ps(value, _mm256_loadu_ps(cosines + i), turned));
  }
  for (; i < dim; i += 2) {
    const float even = x[i];
    const float odd = x[i + 1];
    x[i] = __builtin_fmaf(even, cosines[i], odd * sines[i]);
    x[i + 1] = __builtin_fmaf(odd, cosines[i + 1], even * sines[i + 1]);
  }
}

// One step of the butterfly among eight lanes: lanes whose partner is before them take the
// difference.
CACHALOT_SIMD_FN __m256 Butterfly(__m256 value, __m256 partner, int later_lanes) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i later =
      _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(later_lanes), bit), bit);
  const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(later), _mm256_set1_ps(-0.0F));
  return _mm256_add_ps(partner, _mm256_xor_ps(value, sign));
}

// x times the Sylvester matrix of `width` (a power of two, at least 8), divided by sqrt(width).
[[maybe_unused]] static void HadamardRow(float* x, int64_t width) {
  const __m256 unit =
      _mm256_set1_ps(static_cast<float>(1 / __builtin_sqrt(static_cast<double>(width))));
  for (int64_t i = 0; i < width; i += 8) {
    __m256 value = _mm256_loadu_ps(x + i);
    value = Butterfly(value, _mm256_permute_ps(value, 0xB1), 0xAA);
    value = Butterfly(value, _mm256_permute_ps(value, 0x4E), 0xCC);
    value = Butterfly(value, _mm256_permute2f128_ps(value, value, 1), 0xF0);
    _mm256_storeu_ps(x + i, value);
  }
  for (int64_t step = 8; step < width; step *= 2) {
    for (int64_t group = 0; group < width; group += 2 * step) {
      for (int64_t i = group; i < group + step; i += 8) {
        const __m256 first = _mm256_loadu_ps(x + i);
        const __m256 second = _mm256_loadu_ps(x + i + step);
        _mm256_storeu_ps(x + i, _mm256_add_ps(first, second));
        _mm256_storeu_ps(x + i + step, _mm256_sub_ps(first, second));
      }
    }
  }
  for (int64_t i = 0; i < width; i += 8) {
    _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), unit));
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
