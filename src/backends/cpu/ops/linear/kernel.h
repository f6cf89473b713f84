// The kernels of Linear, compiled by avx2.cc and avx512.cc. Three ways through, with the same sums:
//   one token   decode in registers and multiply at once: as fast as the weights can be read
//   few         likewise, several rows times several tokens at once, whose inputs stay in the first
//               level of the cache
//   many        decode a strip of rows into the first level, then multiply it with all tokens of a
//               block
// Products (floats.h, fixed.h) says how:
//   kBlockBytes, kInputBlockBytes  of 128 columns of a weight, and of an input
//   kBlockScales, ScalesOf         stored scales of 128 columns, and those of a row
//   kRowsAtOnce                    for one token
//   AddBlock                       adds a block's products to the sum of one token
//   TurnRows, AddRows              rows at once for so many tokens; adds blocks of kRows rows to
//                                  sums[row][token][lane]
//   DecodeBlock                    a block for MultiplyTile
//   MultiplyTile<kCount>           kTileRows decoded rows times kCount <= kTileTokens tokens, added
//                                  to sums[row][token][lane]
//   FactorOf                       what sums are multiplied by in the end
#pragma once

#include "backends/cpu/ops/linear/fixed.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

CACHALOT_SIMD_FN const uint8_t* TokenOf(const LinearTask& task, int64_t t) {
  return task.x + (task.x_rows != nullptr ? task.x_rows[t] : t) * task.x_stride;
}

template <typename Products>
CACHALOT_SIMD_FN int64_t RowBytes(const LinearTask& task) {
  return task.cols * Products::kBlockBytes / kLinearBlock;
}

// A copy of the columns that do not fill the last block and of their scales, with zeros after them.
template <typename Products>
struct LastBlock {
  alignas(64) uint8_t bytes[Products::kBlockBytes];
  uint8_t scales[Products::kBlockScales + 1];

  CACHALOT_SIMD_MEMBER LastBlock(const LinearTask& task, int64_t row) {
    const int64_t block = task.cols / kLinearBlock;
    Copy(task.values + row * RowBytes<Products>(task), RowBytes<Products>(task),
         block * Products::kBlockBytes, Products::kBlockBytes, bytes);
    Copy(Products::ScalesOf(task, row), Products::RowScales(task), block * Products::kBlockScales,
         Products::kBlockScales, scales);
  }

  CACHALOT_SIMD_MEMBER static void Copy(const uint8_t* from, int64_t from_count, int64_t begin,
                                        int64_t count, uint8_t* to) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = begin + i < from_count ? from[begin + i] : 0;
    }
  }
};

CACHALOT_SIMD_FN void Finish(const LinearTask& task, int64_t token, int64_t row, F32x16 sum,
                             float factor) {
  float* y = task.y + token * task.y_stride + row;
  const float value = Sum(sum) * factor;
  *y = task.accumulate ? *y + value : value;
}

// Rows lie one after the other: what the next ones begin with is fetched while these are read,
// and in long rows what comes a little later.
constexpr int64_t kShortRowsBytes = 16384;
constexpr int64_t kLongRowsAhead = 4096;

// Rows [row, row + kRows).
template <typename Products, int kRows, bool kScaledInput>
CACHALOT_SIMD_FN void MultiplyOneRows(const LinearTask& task, int64_t row, const uint8_t* x,
                                      float factor) {
  const int64_t row_bytes = RowBytes<Products>(task);
  const uint8_t* bytes = task.values + row * row_bytes;
  const int64_t full_blocks = task.cols / kLinearBlock;
  const int64_t next = kRows * row_bytes;
  const int64_t ahead = next <= kShortRowsBytes ? next : kLongRowsAhead;
  F32x16 sums[kRows];
  CACHALOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    sums[r] = Zero();
  }
  for (int64_t block = 0; block < full_blocks; ++block) {
    CACHALOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* w = bytes + r * row_bytes + block * Products::kBlockBytes;
      PrefetchBytes<Products::kBlockBytes>(w + ahead);
      Products::template AddBlock<kScaledInput>(
          w, Products::ScalesOf(task, row + r) + block * Products::kBlockScales,
          x + block * Products::kInputBlockBytes, sums + r);
    }
  }
  CACHALOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (full_blocks < BlocksOf(task.cols)) {
      const LastBlock<Products> last(task, row + r);
      Products::template AddBlock<kScaledInput>(
          last.bytes, last.scales, x + full_blocks * Products::kInputBlockBytes, sums + r);
    }
    Finish(task, 0, row + r, sums[r], Products::FactorOf(task, row + r) * factor);
  }
}

template <typename Products, bool kScaledInput>
CACHALOT_SIMD_FN void MultiplyOneRange(const LinearTask& task, int64_t begin, int64_t end,
                                       const uint8_t* x, float factor) {
  int64_t row = begin;
  for (; row + Products::kRowsAtOnce <= end; row += Products::kRowsAtOnce) {
    MultiplyOneRows<Products, Products::kRowsAtOnce, kScaledInput>(task, row, x, factor);
  }
  for (; row < end; ++row) {
    MultiplyOneRows<Products, 1, kScaledInput>(task, row, x, factor);
  }
}

// Of the rows from `row` on that share their scales.
CACHALOT_SIMD_FN int64_t EndOfSharing(const LinearTask& task, int64_t row) {
  const int64_t end = (row / kLinearTurnRows + 1) * kLinearTurnRows;
  return end < task.row_end ? end : task.row_end;
}

template <typename Products>
void MultiplyOne(const LinearTask& task) {
  const uint8_t* x = TokenOf(task, 0);
  if constexpr (Products::kSharesScales) {
    if (BlocksOf(task.cols) * Products::kInputBlockBytes <= kLinearScratchBytes) {
      int64_t end = 0;
      for (int64_t row = task.row_begin; row < task.row_end; row = end) {
        end = EndOfSharing(task, row);
        Products::ScaleInput(Products::ScalesOf(task, row), BlocksOf(task.cols), x, task.scratch);
        MultiplyOneRange<Products, true>(task, row, end, task.scratch, Products::kScaleUnit);
      }
      return;
    }
  }
  MultiplyOneRange<Products, false>(task, task.row_begin, task.row_end, x, 1);
}

// Sums are [row][token][lane]. Token by token: outputs of neighbouring tokens may lie in the same
// set of the cache.
template <typename Products>
void FinishRows(const LinearTask& task, int64_t row, int64_t num_rows, int64_t token,
                int64_t tokens, const float* sums, float factor) {
  const int64_t row_sums = tokens * kLanes;
  float factors[kLinearTurnRows];
  for (int64_t r = 0; r < num_rows; ++r) {
    factors[r] = Products::FactorOf(task, row + r) * factor;
  }
  for (int64_t t = 0; t < tokens; ++t) {
    const float* token_sums = sums + t * kLanes;
    float* y = task.y + (token + t) * task.y_stride + row;
    int64_t r = 0;
    for (; r + 8 <= num_rows; r += 8) {
      __m256 values =
          _mm256_mul_ps(SumEach(token_sums + r * row_sums, row_sums), _mm256_loadu_ps(factors + r));
      if (task.accumulate) {
        values = _mm256_add_ps(_mm256_loadu_ps(y + r), values);
      }
      _mm256_storeu_ps(y + r, values);
    }
    for (; r < num_rows; ++r) {
      Finish(task, token + t, row + r, Load(token_sums + r * row_sums), factors[r]);
    }
  }
}

// From the rows that are read to those that are fetched: with rows of 4 KB all these lie in the same
// sets of the first level, which has room for eight.
constexpr int64_t kTurnRowsAhead = 4;

// Blocks [begin, end) of a few inputs.
struct Turn {
  int64_t begin;
  int64_t end;
  const uint8_t* x[kLinearTurnTokens];  // from block `begin` on
  float* sums;                          // [row][token][lane]
  int64_t row_sums;
};

// Rows [row, row + kRows) of a turn, whose `sums` is that of the first.
template <typename Products, int kRows, int kCount>
CACHALOT_SIMD_FN void TakeTurn(const LinearTask& task, int64_t row, const Turn& turn, float* sums) {
  const int64_t row_bytes = RowBytes<Products>(task);
  const int64_t full_blocks = task.cols / kLinearBlock;
  const int64_t full_end = turn.end < full_blocks ? turn.end : full_blocks;
  Products::template AddRows<kRows, kCount>(
      task.values + row * row_bytes + turn.begin * Products::kBlockBytes,
      Products::ScalesOf(task, row) + turn.begin * Products::kBlockScales, row_bytes,
      kTurnRowsAhead * row_bytes, full_end - turn.begin, turn.x, 0, sums, turn.row_sums);
  if (full_end < turn.end) {
    for (int r = 0; r < kRows; ++r) {
      const LastBlock<Products> last(task, row + r);
      Products::template AddRows<1, kCount>(last.bytes, last.scales, 0, 0, 1, turn.x,
                                            (full_blocks - turn.begin) * Products::kInputBlockBytes,
                                            sums + r * turn.row_sums, turn.row_sums);
    }
  }
}

template <typename Products, int kCount>
void TakeTurns(const LinearTask& task, int64_t row, int64_t num_rows, int64_t count,
               const Turn& turn) {
  if constexpr (kCount > 1) {
    if (count < kCount) {
      return TakeTurns<Products, kCount - 1>(task, row, num_rows, count, turn);
    }
  }
  constexpr int kRows = Products::TurnRows(kCount);
  int64_t r = 0;
  for (; r + kRows <= num_rows; r += kRows) {
    TakeTurn<Products, kRows, kCount>(task, row + r, turn, turn.sums + r * turn.row_sums);
  }
  for (; r < num_rows; ++r) {
    TakeTurn<Products, 1, kCount>(task, row + r, turn, turn.sums + r * turn.row_sums);
  }
}

// Rows [row, row + num_rows), which share their scales.
template <typename Products>
void MultiplyFewRows(const LinearTask& task, int64_t row, int64_t num_rows) {
  uint8_t* scaled = task.scratch;
  auto* sums = reinterpret_cast<float*>(scaled + kLinearTurnBytes);
  const int64_t row_sums = task.tokens * kLanes;
  for (int64_t i = 0; i < num_rows * row_sums; i += kLanes) {
    Store(sums + i, Zero());
  }
  const int64_t blocks = BlocksOf(task.cols);
  const int64_t groups = (task.tokens + kLinearTurnTokens - 1) / kLinearTurnTokens;
  for (int64_t begin = 0; begin < blocks; begin += kLinearTurnBlocks) {
    const int64_t end = begin + kLinearTurnBlocks < blocks ? begin + kLinearTurnBlocks : blocks;
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t token = task.tokens * group / groups;
      const int64_t count = task.tokens * (group + 1) / groups - token;
      Turn turn = {begin, end, {}, sums + token * kLanes, row_sums};
      for (int64_t t = 0; t < count; ++t) {
        turn.x[t] = TokenOf(task, token + t) + begin * Products::kInputBlockBytes;
        if constexpr (Products::kSharesScales) {
          uint8_t* to = scaled + t * kLinearInputBytes;
          Products::ScaleInput(Products::ScalesOf(task, row) + begin, end - begin, turn.x[t], to);
          turn.x[t] = to;
        }
      }
      TakeTurns<Products, kLinearTurnTokens>(task, row, num_rows, count, turn);
    }
  }
  FinishRows<Products>(task, row, num_rows, 0, task.tokens, sums, Products::kScaleUnit);
}

template <typename Products>
void MultiplyFew(const LinearTask& task) {
  int64_t end = 0;
  for (int64_t row = task.row_begin; row < task.row_end; row = end) {
    end = EndOfSharing(task, row);
    MultiplyFewRows<Products>(task, row, end - row);
  }
}

// A tile of the first min(left, kCount) tokens.
template <typename Products, int kCount>
CACHALOT_SIMD_FN void MultiplyTileTokens(int64_t left, const uint8_t* decoded,
                                         const uint8_t* const* x, int64_t x_offset, int64_t blocks,
                                         float* sums, int64_t row_sums) {
  if constexpr (kCount > 1) {
    if (left < kCount) {
      return MultiplyTileTokens<Products, kCount - 1>(left, decoded, x, x_offset, blocks, sums,
                                                      row_sums);
    }
  }
  Products::template MultiplyTile<kCount>(decoded, x, x_offset, blocks, sums, row_sums);
}

// Blocks [begin, end) of a row into the strip, while what the next strip decodes is fetched.
template <typename Products>
CACHALOT_SIMD_FN void DecodeBlocks(const LinearTask& task, int64_t row, int64_t begin, int64_t end,
                                   const uint8_t* next, uint8_t* decoded) {
  const uint8_t* bytes = task.values + row * RowBytes<Products>(task);
  for (int64_t block = begin; block < end; ++block) {
    uint8_t* to = decoded + (block - begin) * Products::kInputBlockBytes;
    if (block < task.cols / kLinearBlock) {
      PrefetchBytes<Products::kBlockBytes>(next + (block - begin) * Products::kBlockBytes);
      Products::DecodeBlock(bytes + block * Products::kBlockBytes,
                            Products::ScalesOf(task, row) + block * Products::kBlockScales, to);
    } else {
      const LastBlock<Products> last(task, row);
      Products::DecodeBlock(last.bytes, last.scales, to);
    }
  }
}

// Rows [row, row + num_rows) for tokens [token, token + tokens), at most a block of each.
template <typename Products>
void MultiplyMany(const LinearTask& task, int64_t row, int64_t num_rows, int64_t token,
                  int64_t tokens) {
  uint8_t* strip = task.scratch;
  auto* sums = reinterpret_cast<float*>(strip + kLinearStripBytes);  // [row][token][lane]
  const uint8_t* x[kLinearTokens];
  for (int64_t t = 0; t < tokens; ++t) {
    x[t] = TokenOf(task, token + t);
  }
  const int64_t row_sums = tokens * kLanes;
  // A tile that is not full repeats the last row; nobody reads those sums.
  const int64_t tile_rows =
      (num_rows + Products::kTileRows - 1) / Products::kTileRows * Products::kTileRows;
  for (int64_t i = 0; i < tile_rows * row_sums; i += kLanes) {
    Store(sums + i, Zero());
  }
  const int64_t blocks = BlocksOf(task.cols);
  for (int64_t begin = 0; begin < blocks; begin += kLinearDepth) {
    const int64_t end = begin + kLinearDepth < blocks ? begin + kLinearDepth : blocks;
    for (int64_t r = 0; r < tile_rows; r += kLinearStrip) {
      const int64_t rows = tile_rows - r < kLinearStrip ? tile_rows - r : kLinearStrip;
      const bool last = r + rows == tile_rows;
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t next_row = row + (last ? i : r + rows + i);
        const int64_t next_block = last ? end : begin;
        DecodeBlocks<Products>(
            task, row + (r + i < num_rows ? r + i : num_rows - 1), begin, end,
            task.values + next_row * RowBytes<Products>(task) + next_block * Products::kBlockBytes,
            strip + i * Products::kStripRowBytes);
      }
      for (int64_t t = 0; t < tokens; t += Products::kTileTokens) {
        for (int64_t i = 0; i < rows; i += Products::kTileRows) {
          MultiplyTileTokens<Products, Products::kTileTokens>(
              tokens - t, strip + i * Products::kStripRowBytes, x + t,
              begin * Products::kInputBlockBytes, end - begin,
              sums + (r + i) * row_sums + t * kLanes, row_sums);
        }
      }
    }
  }
  FinishRows<Products>(task, row, num_rows, token, tokens, sums, 1);
}

template <typename Products>
void Multiply(const LinearTask& task) {
  if (task.tokens == 0) {
    return;
  }
  if (task.tokens == 1) {
    return MultiplyOne<Products>(task);
  }
  if (task.tokens <= kLinearFewTokens) {
    return MultiplyFew<Products>(task);
  }
  for (int64_t token = 0; token < task.tokens; token += kLinearTokens) {
    const int64_t tokens_left = task.tokens - token;
    for (int64_t row = task.row_begin; row < task.row_end; row += kLinearRows) {
      const int64_t rows_left = task.row_end - row;
      MultiplyMany<Products>(task, row, rows_left < kLinearRows ? rows_left : kLinearRows, token,
                             tokens_left < kLinearTokens ? tokens_left : kLinearTokens);
    }
  }
}

template <typename Format>
constexpr LinearKernel kFloatKernel = {PackedFloatsBytes<Format>, PackFloats<Format>,
                                       Multiply<FloatProducts<Format>>};

}  // namespace

const LinearKernel kLinearKernels[5] = {kFloatKernel<F32Format>,
                                        kFloatKernel<Bf16Format>,
                                        kFloatKernel<Fp8Format>,
                                        {PackedFixedBytes, PackFixed, Multiply<FixedProducts>},
                                        kFloatKernel<Int8Format>};

}  // namespace cachalot::cpu::CACHALOT_SIMD
