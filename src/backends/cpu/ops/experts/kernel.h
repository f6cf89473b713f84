// Between an expert's products; compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/experts/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

CACHALOT_SIMD_FN F32x16 ActivateLanes(F32x16 g, F32x16 u, F32x16 weight, float limit) {
  if (limit > 0) {
    g = Min(Broadcast(limit), g);
    u = Max(Broadcast(-limit), Min(Broadcast(limit), u));
  }
  return Mul(Mul(weight, Silu(g)), u);
}

}  // namespace

void Activate(const ActivateTask& task) {
  for (int64_t v = 0; v < task.rows; ++v) {
    float* g = task.g + v * task.stride;
    const float* u = task.u + v * task.stride;
    const F32x16 weight = Broadcast(task.weights[v]);
    int64_t c = task.begin;
    for (; c + kLanes <= task.end; c += kLanes) {
      Store(g + c, ActivateLanes(Load(g + c), Load(u + c), weight, task.limit));
    }
    if (c < task.end) {
      const int n = static_cast<int>(task.end - c);
      StoreFirst(g + c, ActivateLanes(LoadFirst(g + c, n), LoadFirst(u + c, n), weight, task.limit),
                 n);
    }
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
