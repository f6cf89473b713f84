// HcPre on vectors, and what HcHead shares with it: the mixes are rows of Linear in float32 and one
// sum of squares; the maps made of them are a few dozen values a token, in double.
#pragma once

#include <cstdint>

#include "backends/cpu/ops/linear/vector.h"

namespace cachalot {
struct HcPreParams;
struct Tensor;
}  // namespace cachalot

namespace cachalot::cpu {

// y[c] = sum over streams, in order, of weights[s] * x[s][c].
struct CollapseTask {
  const float* x = nullptr;  // [streams, width]
  const float* weights = nullptr;
  int64_t streams = 0;
  int64_t width = 0;
  float* y = nullptr;
};

namespace avx2 {
float SumOfSquares(const float* values, int64_t count);
void Collapse(const CollapseTask& task);
}  // namespace avx2
namespace avx512 {
float SumOfSquares(const float* values, int64_t count);
void Collapse(const CollapseTask& task);
}  // namespace avx512

struct HcKernels {
  const LinearKernel* linear;
  float (*sum_of_squares)(const float* values, int64_t count);
  void (*collapse)(const CollapseTask& task);
};
HcKernels Avx2HcKernels();
HcKernels Avx512HcKernels();

// mixes[t][row] = (fn row . v) / sqrt(mean(v^2) + rms_eps), with v = x[t] as one row.
void VectorHcMixes(const Tensor& x, const Tensor& fn, double rms_eps, const HcKernels& kernels,
                   Context& context, float* mixes);

void Avx2HcPre(const HcPreParams& params, Context& context);
void Avx512HcPre(const HcPreParams& params, Context& context);

}  // namespace cachalot::cpu
