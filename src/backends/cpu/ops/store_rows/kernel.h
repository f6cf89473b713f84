// The kernel, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/rows_simd.h"
#include "backends/cpu/ops/store_rows/vector.h"

namespace cachalot::cpu::CACHALOT_SIMD {

void Encode(const EncodeRows& task) {
  for (int64_t row = 0; row < task.rows; ++row) {
    EncodeRow(task.layout, task.x + row * task.layout.width,
              task.pool + task.slots[row] * task.row_bytes);
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
