// Linear on vectors. Each output is one fixed sum whatever the tokens beside it and the threads:
// 16 lanes over the columns, columns in rising order, then the lanes folded. The kernels are leaf
// code (ops/simd.h); other operators' drivers use them too.
#pragma once

#include <cstdint>

namespace cachalot {
struct LinearParams;
}

namespace cachalot::cpu {

class Context;

// y[t][row] = factor of the row * sum over columns of w[row][c] * x[t][c], for rows [row_begin,
// row_end).
struct LinearTask {
  const uint8_t* values = nullptr;  // as Matrix, from row 0
  const uint8_t* scales = nullptr;
  int64_t cols = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  const float* x = nullptr;  // token t at x + (x_rows ? x_rows[t] : t) * x_stride
  const int32_t* x_rows = nullptr;
  int64_t x_stride = 0;
  int64_t tokens = 0;
  float* y = nullptr;  // output of token t and row r at y + t * y_stride + r
  int64_t y_stride = 0;
  bool accumulate = false;
  float* scratch = nullptr;  // kLinearScratch floats of this thread
};

// Sizes of a block: weights decoded once serve kLinearTokens tokens, and the block's x and sums
// stay in the second-level cache.
constexpr int64_t kLinearRows = 64;
constexpr int64_t kLinearTokens = 64;
constexpr int64_t kLinearDepth = 512;  // columns
constexpr int64_t kLinearStrip = 8;    // rows decoded at a time, to stay in the first-level cache
constexpr int64_t kLinearLanes = 16;
constexpr int64_t kLinearScratch = kLinearTokens * kLinearDepth + kLinearStrip * kLinearDepth +
                                   kLinearRows * kLinearTokens * kLinearLanes;

using LinearKernel = void (*)(const LinearTask& task);

// By MatrixFormat.
namespace avx2 {
extern const LinearKernel kLinearKernels[5];
}
namespace avx512 {
extern const LinearKernel kLinearKernels[5];
}

void Avx2Linear(const LinearParams& params, Context& context);
void Avx512Linear(const LinearParams& params, Context& context);

}  // namespace cachalot::cpu
