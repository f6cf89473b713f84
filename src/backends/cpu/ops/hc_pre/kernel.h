// Sums over the streams; compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/hc_pre/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {

float SumOfSquares(const float* values, int64_t count) {
  // Two sums in turn hide the latency of Fma.
  F32x16 even = Zero();
  F32x16 odd = Zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const F32x16 first = Load(values + i);
    const F32x16 second = Load(values + i + kLanes);
    even = Fma(first, first, even);
    odd = Fma(second, second, odd);
  }
  for (; i < count; i += kLanes) {
    const int64_t left = count - i;
    const F32x16 rest = LoadFirst(values + i, left < kLanes ? static_cast<int>(left) : kLanes);
    even = Fma(rest, rest, even);
  }
  return Sum(Add(even, odd));
}

void Collapse(const CollapseTask& task) {
  int64_t c = 0;
  for (; c + kLanes <= task.width; c += kLanes) {
    F32x16 sum = Zero();
    for (int64_t s = 0; s < task.streams; ++s) {
      sum = Fma(Broadcast(task.weights[s]), Load(task.x + s * task.width + c), sum);
    }
    Store(task.y + c, sum);
  }
  if (c < task.width) {
    const int n = static_cast<int>(task.width - c);
    F32x16 sum = Zero();
    for (int64_t s = 0; s < task.streams; ++s) {
      sum = Fma(Broadcast(task.weights[s]), LoadFirst(task.x + s * task.width + c, n), sum);
    }
    StoreFirst(task.y + c, sum, n);
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
