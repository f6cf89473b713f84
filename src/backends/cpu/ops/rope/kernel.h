// The kernel, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/rope/vector.h"
#include "backends/cpu/ops/transforms_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {

void Rotate(const RotateTask& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    RotatePairs(task.first + row * task.stride, task.cosines, task.sines, task.dim);
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
