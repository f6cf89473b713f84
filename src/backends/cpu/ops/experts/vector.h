// Experts on vectors: the products are those of Linear, with each expert's tokens gathered; its
// own kernel is what lies between them.
#pragma once

#include <cstdint>

namespace cachalot {
struct ExpertsParams;
}

namespace cachalot::cpu {

class Context;

// g[v][c] = weight[v] * silu(g[v][c]) * u[v][c], both bounded as limit says, for columns [begin,
// end).
struct ActivateTask {
  float* g = nullptr;  // row v at g + v * stride
  const float* u = nullptr;
  int64_t stride = 0;
  const float* weights = nullptr;
  int64_t rows = 0;
  int64_t begin = 0;
  int64_t end = 0;
  float limit = 0;  // 0: none
};

namespace avx2 {
void Activate(const ActivateTask& task);
}
namespace avx512 {
void Activate(const ActivateTask& task);
}

void Avx2Experts(const ExpertsParams& params, Context& context);
void Avx512Experts(const ExpertsParams& params, Context& context);
void AmxExperts(const ExpertsParams& params, Context& context);

}  // namespace cachalot::cpu
