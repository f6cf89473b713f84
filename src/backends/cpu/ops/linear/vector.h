// Linear on vectors. Each output is one fixed sum whatever the tokens beside it and the threads: 16
// lanes over the columns, in rising blocks of 128 columns, then the lanes folded. Inputs are
// packed once per call, in the order in which a weight's bytes come apart (formats.h, fixed.h), so
// that weights are used as they lie in the files. The kernels are leaf code (ops/simd.h).
#pragma once

#include <cstdint>

#include "tensor/matrix.h"

namespace cachalot {
struct LinearParams;
}

namespace cachalot::cpu {

class Context;

inline constexpr int64_t kLinearBlock = 128;  // columns

// Columns [begin, end) of one input, as the products read it. begin is a multiple of 32, and so is
// end unless it is `cols`; the part that reaches `cols` also fills the rest of its block.
struct PackTask {
  const float* x = nullptr;  // [cols]
  int64_t cols = 0;
  int64_t begin = 0;
  int64_t end = 0;
  uint8_t* packed = nullptr;  // LinearKernel::packed_bytes, 64-byte aligned
};

// y[t][row] = factor of the row * sum over columns of w[row][c] * x[t][c], for rows [row_begin,
// row_end).
struct LinearTask {
  const uint8_t* values = nullptr;  // as Matrix, from row 0
  const uint8_t* scales = nullptr;
  int64_t cols = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  const uint8_t* x = nullptr;  // packed; token t at x + (x_rows ? x_rows[t] : t) * x_stride
  const int32_t* x_rows = nullptr;
  int64_t x_stride = 0;  // bytes
  int64_t tokens = 0;
  float* y = nullptr;  // output of token t and row r at y + t * y_stride + r
  int64_t y_stride = 0;
  bool accumulate = false;
  uint8_t* scratch = nullptr;  // kLinearScratchBytes of this thread, 64-byte aligned
};

// The products with weights of one format.
struct LinearKernel {
  int64_t (*packed_bytes)(int64_t cols);
  void (*pack)(const PackTask& task);
  void (*multiply)(const LinearTask& task);
};

// Few tokens: rows that share their scales take turns with a part of the inputs, which stays in the
// first level of the cache: kLinearTurnBlocks blocks of kLinearTurnTokens.
inline constexpr int64_t kLinearFewTokens = 24;
inline constexpr int64_t kLinearTurnRows = 128;
inline constexpr int64_t kLinearTurnTokens = 6;
inline constexpr int64_t kLinearTurnBlocks = 8;
inline constexpr int64_t kLinearInputBytes =  // of one; one more line: no power of two
    kLinearTurnBlocks * kLinearBlock * 4 + 64;
inline constexpr int64_t kLinearTurnBytes = kLinearTurnTokens * kLinearInputBytes;
inline constexpr int64_t kLinearFewBytes =
    kLinearTurnBytes + kLinearTurnRows * kLinearFewTokens * 16 * 4;

// Many tokens go in blocks of kLinearRows x kLinearTokens, whose inputs and sums stay in the second
// level of the cache. A strip of it is decoded at a time, into the first level: kLinearStrip rows of
// kLinearDepth blocks of columns.
inline constexpr int64_t kLinearRows = 32;
inline constexpr int64_t kLinearTokens = 96;
inline constexpr int64_t kLinearDepth = 4;
inline constexpr int64_t kLinearStrip = 8;
inline constexpr int64_t kLinearStripBytes = kLinearStrip * (kLinearDepth * kLinearBlock * 4 + 64);
inline constexpr int64_t kLinearManyBytes =
    kLinearStripBytes + kLinearRows * kLinearTokens * 16 * 4;
inline constexpr int64_t kLinearVectorBytes =
    kLinearFewBytes < kLinearManyBytes ? kLinearManyBytes : kLinearFewBytes;

// With tiles (tiles.h): tokens in blocks, whose inputs and sums stay in the second level, and a
// strip of decoded rows in the first.
inline constexpr int64_t kTileTokens = 128;
inline constexpr int64_t kTileStripBytes = 32 * (1024 + 64);
inline constexpr int64_t kTilePanelBytes = 256 << 10;
inline constexpr int64_t kTileSumsBytes = 256 << 10;
inline constexpr int64_t kLinearTileBytes = kTileStripBytes + kTilePanelBytes + kTileSumsBytes;

inline constexpr int64_t kLinearScratchBytes =
    kLinearVectorBytes < kLinearTileBytes ? kLinearTileBytes : kLinearVectorBytes;

// By MatrixFormat.
namespace avx2 {
extern const LinearKernel kLinearKernels[5];
}
namespace avx512 {
extern const LinearKernel kLinearKernels[5];
}
namespace amx {
extern const LinearKernel kLinearKernels[5];
// The most columns of int8 for which no sum leaves 32 bits: 128 * 255 * 65536 < 2^31.
inline constexpr int64_t kMaxInt8Cols = 65536;
}  // namespace amx

// y = x w^T as in LinearParams, on all threads: for Linear and for operators that contain one.
struct Product {
  Matrix w;
  const float* x = nullptr;  // [tokens, groups * w.cols]
  int64_t tokens = 0;
  int64_t groups = 1;
  float* y = nullptr;  // [tokens, w.rows]
  bool accumulate = false;
};
// Uses context.packed_inputs() and the threads' scratch memory.
void RunProduct(const Product& product, Context& context, const LinearKernel* kernels);

void Avx2Linear(const LinearParams& params, Context& context);
void Avx512Linear(const LinearParams& params, Context& context);
void AmxLinear(const LinearParams& params, Context& context);

}  // namespace cachalot::cpu
