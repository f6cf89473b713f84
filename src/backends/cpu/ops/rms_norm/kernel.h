// The kernel, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/rms_norm/vector.h"
#include "backends/cpu/ops/transforms_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {

void Norm(const NormRows& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    NormRow(task.x + row * task.width, task.weight, task.y + row * task.width, task.width,
            task.eps);
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
