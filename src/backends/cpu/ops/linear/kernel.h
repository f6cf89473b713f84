// The kernels of Linear, compiled by avx2.cc and avx512.cc. Two ways through, with the same sums:
//   few tokens   decode in registers and multiply at once: as fast as the weights can be read
//   many         decode a strip of rows into the first-level cache, then multiply it with all
//                tokens of a block
#pragma once

#include "backends/cpu/ops/linear/decode.h"
#include "backends/cpu/ops/linear/tile.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

CACHALOT_SIMD_FN const float* TokenOf(const LinearTask& task, int64_t t) {
  return task.x + (task.x_rows != nullptr ? task.x_rows[t] : t) * task.x_stride;
}

CACHALOT_SIMD_FN void Finish(const LinearTask& task, int64_t t, int64_t row, float value) {
  float* y = task.y + t * task.y_stride + row;
  *y = task.accumulate ? *y + value : value;
}

// ---- Few tokens.

// Asks for the block that the next rows begin with here, `distance` bytes on: rows are no longer
// than a page or two, where the hardware's own prefetching starts over. Past the end of the weight
// it asks in vain and does no harm.
template <typename Rows>
CACHALOT_SIMD_FN void Prefetch(const uint8_t* block, int64_t distance) {
  const char* ahead = reinterpret_cast<const char*>(block) + distance;
  CACHALOT_UNROLL
  for (int line = 0; line < 4 * Rows::kUnitBytes; line += 64) {
    _mm_prefetch(ahead + line, _MM_HINT_T0);
  }
}

// Rows [row, row + kRows) for tokens [0, kTokens): kRows * kTokens sums at once, enough of them to
// hide the latency of Fma and few enough for 16 registers.
template <typename Rows, int kRows, int kTokens>
void MultiplyDirectly(const LinearTask& task, int64_t row) {
  Rows rows[kRows];
  const float* x[kTokens];
  F32x16 sums[kRows][kTokens];
  CACHALOT_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    x[t] = TokenOf(task, t);
  }
  CACHALOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    rows[r].Start(task, row + r);
    CACHALOT_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      sums[r][t] = Zero();
    }
  }
  const int64_t blocks = task.cols / kBlockCols;
  const int64_t next_rows = kRows * task.cols * Rows::kUnitBytes / kUnitCols;
  for (int64_t block = 0; block < blocks; ++block) {
    CACHALOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      rows[r].EnterBlock(block);
      Prefetch<Rows>(rows[r].bytes + block * 4 * Rows::kUnitBytes, next_rows);
    }
    for (int unit = 0; unit < 4; ++unit) {
      const int64_t index = block * 4 + unit;
      CACHALOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const F32x32 w = rows[r].Decode(rows[r].bytes + index * Rows::kUnitBytes, unit);
        CACHALOT_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          const float* from = x[t] + index * kUnitCols;
          sums[r][t] = Fma(w.first, Load(from), sums[r][t]);
          sums[r][t] = Fma(w.second, Load(from + kLanes), sums[r][t]);
        }
      }
    }
  }
  for (int64_t col = blocks * kBlockCols; col < task.cols; col += kUnitCols) {
    const int64_t left = task.cols - col;
    const int n = left < kUnitCols ? static_cast<int>(left) : static_cast<int>(kUnitCols);
    const int unit = static_cast<int>(col % kBlockCols / kUnitCols);
    CACHALOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      rows[r].EnterBlock(blocks);
      const F32x32 w =
          DecodeFirst(rows[r], rows[r].bytes + col / kUnitCols * Rows::kUnitBytes, unit, n);
      CACHALOT_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const float* from = x[t] + col;
        const int second = n > kLanes ? n - kLanes : 0;
        sums[r][t] = Fma(w.first, LoadFirst(from, n - second), sums[r][t]);
        sums[r][t] = Fma(w.second, LoadFirst(from + (n - second), second), sums[r][t]);
      }
    }
  }
  CACHALOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    CACHALOT_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      Finish(task, t, row + r, Sum(sums[r][t]) * rows[r].factor);
    }
  }
}

template <typename Rows, int kRows, int kTokens>
void MultiplyRowsDirectly(const LinearTask& task) {
  int64_t row = task.row_begin;
  for (; row + kRows <= task.row_end; row += kRows) {
    MultiplyDirectly<Rows, kRows, kTokens>(task, row);
  }
  for (; row < task.row_end; ++row) {
    MultiplyDirectly<Rows, 1, kTokens>(task, row);
  }
}

// ---- Many tokens.

// Columns [begin, begin + cols) of the tokens, one after the other, padded with zeros to `padded`.
void PackTokens(const LinearTask& task, int64_t first_token, int64_t tokens, int64_t begin,
                int64_t cols, int64_t padded, float* packed) {
  for (int64_t t = 0; t < tokens; ++t) {
    const float* from = TokenOf(task, first_token + t) + begin;
    float* to = packed + t * padded;
    int64_t c = 0;
    for (; c + kLanes <= cols; c += kLanes) {
      Store(to + c, Load(from + c));
    }
    for (; c < padded; c += kLanes) {
      const int64_t left = cols > c ? cols - c : 0;
      Store(to + c, LoadFirst(from + (left > 0 ? c : 0), static_cast<int>(left)));
    }
  }
}

// The same columns of a row; begin is a multiple of 128.
template <typename Rows>
void DecodeRow(const LinearTask& task, int64_t row, int64_t begin, int64_t cols, float* decoded) {
  Rows rows;
  rows.Start(task, row);
  for (int64_t c = 0; c < cols; c += kUnitCols) {
    const int64_t col = begin + c;
    const int unit = static_cast<int>(col % kBlockCols / kUnitCols);
    if (unit == 0) {
      rows.EnterBlock(col / kBlockCols);
    }
    const uint8_t* from = rows.bytes + col / kUnitCols * Rows::kUnitBytes;
    const int64_t left = cols - c;
    const F32x32 w = left >= kUnitCols ? rows.Decode(from, unit)
                                       : DecodeFirst(rows, from, unit, static_cast<int>(left));
    Store(decoded + c, w.first);
    Store(decoded + c + kLanes, w.second);
  }
}

// Rows [row, row + num_rows) for tokens [token, token + tokens), at most a block of each. The sums
// of a quad of rows lie together: [quad][token][row of the quad][lane].
template <typename Rows>
void MultiplyBlock(const LinearTask& task, int64_t row, int64_t num_rows, int64_t token,
                   int64_t tokens) {
  float* packed = task.scratch;
  float* strip = packed + kLinearTokens * kLinearDepth;
  float* sums = strip + kLinearStrip * kLinearDepth;
  const int64_t quads = (num_rows + kQuad - 1) / kQuad;
  const int64_t quad_sums = tokens * kQuad * kLanes;
  for (int64_t i = 0; i < quads * quad_sums; i += kLanes) {
    Store(sums + i, Zero());
  }
  for (int64_t begin = 0; begin < task.cols; begin += kLinearDepth) {
    const int64_t left = task.cols - begin;
    const int64_t cols = left < kLinearDepth ? left : kLinearDepth;
    const int64_t padded = (cols + kUnitCols - 1) / kUnitCols * kUnitCols;
    PackTokens(task, token, tokens, begin, cols, padded, packed);
    for (int64_t r = 0; r < quads * kQuad; r += kLinearStrip) {
      const int64_t strip_quads = quads - r / kQuad < 2 ? 1 : 2;
      for (int64_t i = 0; i < strip_quads * kQuad; ++i) {
        // A quad that is not full repeats the last row; nobody reads those sums.
        const int64_t wanted = r + i < num_rows ? r + i : num_rows - 1;
        DecodeRow<Rows>(task, row + wanted, begin, cols, strip + i * padded);
      }
      float* strip_sums = sums + r / kQuad * quad_sums;
      for (int64_t t = 0; t < tokens; t += kTileTokens) {
        const int64_t count = tokens - t < kTileTokens ? tokens - t : kTileTokens;
        for (int64_t quad = 0; quad < strip_quads; ++quad) {
          MultiplyTile(count, strip + quad * kQuad * padded, packed + t * padded, padded,
                       strip_sums + quad * quad_sums + t * kQuad * kLanes);
        }
      }
    }
  }
  for (int64_t r = 0; r < num_rows; ++r) {
    Rows rows;
    rows.Start(task, row + r);
    const float* from = sums + r / kQuad * quad_sums + r % kQuad * kLanes;
    for (int64_t t = 0; t < tokens; ++t) {
      Finish(task, token + t, row + r, Sum(Load(from + t * kQuad * kLanes)) * rows.factor);
    }
  }
}

template <typename Rows>
void RunLinear(const LinearTask& task) {
  switch (task.tokens) {
    case 0:
      return;
    case 1:
      return MultiplyRowsDirectly<Rows, 4, 1>(task);
    case 2:
      return MultiplyRowsDirectly<Rows, 2, 2>(task);
    case 3:
      return MultiplyRowsDirectly<Rows, 1, 3>(task);
    case 4:
      return MultiplyRowsDirectly<Rows, 1, 4>(task);
    default:
      break;
  }
  for (int64_t token = 0; token < task.tokens; token += kLinearTokens) {
    const int64_t tokens_left = task.tokens - token;
    for (int64_t row = task.row_begin; row < task.row_end; row += kLinearRows) {
      const int64_t rows_left = task.row_end - row;
      MultiplyBlock<Rows>(task, row, rows_left < kLinearRows ? rows_left : kLinearRows, token,
                          tokens_left < kLinearTokens ? tokens_left : kLinearTokens);
    }
  }
}

}  // namespace

const LinearKernel kLinearKernels[5] = {RunLinear<F32Rows>, RunLinear<Bf16Rows>, RunLinear<Fp8Rows>,
                                        RunLinear<Fp4Rows>, RunLinear<Int8Rows>};

}  // namespace cachalot::cpu::CACHALOT_SIMD
