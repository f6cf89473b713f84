#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// Rows whose last `dim` values turn by the same angles.
struct RotateTask {
  float* first;  // of those values, in the first row
  int64_t rows;
  int64_t stride;
  int64_t dim;
  const float* cosines;  // [dim], each twice
  const float* sines;    // [dim], each twice, the first of the two negative
};

namespace avx2 {
void Rotate(const RotateTask& task);
}
namespace avx512 {
void Rotate(const RotateTask& task);
}

// Fills the cosines and sines of a RotateTask.
void FillRotation(const RopeTable& table, int64_t position, bool inverse, float* cosines,
                  float* sines);

void Avx2Rope(const RopeParams& params, Context& context);
void Avx512Rope(const RopeParams& params, Context& context);

}  // namespace cachalot::cpu
