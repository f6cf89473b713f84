#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// Rows of `width` floats at x, and as many at y.
struct NormRows {
  const float* x;
  const float* weight;  // may be null: all ones
  float* y;             // may be x
  int64_t rows;
  int64_t width;
  double eps;
};

namespace avx2 {
void Norm(const NormRows& task);
}
namespace avx512 {
void Norm(const NormRows& task);
}

void Avx2RmsNorm(const RmsNormParams& params, Context& context);
void Avx512RmsNorm(const RmsNormParams& params, Context& context);

}  // namespace cachalot::cpu
