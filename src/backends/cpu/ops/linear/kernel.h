// The kernels of Linear, compiled by avx2.cc and avx512.cc. Three ways through, with the same sums:
//   one token   decode in registers and multiply at once: as fast as the weights can be read
//   few         likewise, with the tokens' inputs in the first level of the cache
//   many        decode a strip of rows into the first level, then multiply it with all tokens of a
//               block
// Products (floats.h, fixed.h) says how:
//   kBlockBytes, kInputBlockBytes  of 128 columns of a weight, and of an input
//   kRowsAtOnce                    for one token
//   AddBlock<kCount>               adds a block's products to the sums of kCount tokens
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

// Past the end of the weight it asks in vain and does no harm.
template <typename Products>
CACHALOT_SIMD_FN void PrefetchBlock(const uint8_t* block) {
  CACHALOT_UNROLL
  for (int64_t line = 0; line < Products::kBlockBytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(block) + line, _MM_HINT_T0);
  }
}

template <typename Products>
CACHALOT_SIMD_FN int64_t RowBytes(const LinearTask& task) {
  return task.cols * Products::kBlockBytes / kLinearBlock;
}

// A copy of the columns that do not fill the last block, with zeros after them.
template <typename Products>
struct LastBlock {
  alignas(64) uint8_t bytes[Products::kBlockBytes];

  CACHALOT_SIMD_MEMBER LastBlock(const LinearTask& task, int64_t row) {
    const int64_t begin = task.cols / kLinearBlock * Products::kBlockBytes;
    const uint8_t* from = task.values + row * RowBytes<Products>(task);
    for (int64_t i = 0; i < Products::kBlockBytes; ++i) {
      bytes[i] = begin + i < RowBytes<Products>(task) ? from[begin + i] : 0;
    }
  }
};

// Adds blocks [begin, end) of a row; `ahead` bytes on is what to prefetch.
template <typename Products, int kCount>
CACHALOT_SIMD_FN void AddBlocks(const LinearTask& task, int64_t row, int64_t begin, int64_t end,
                                const uint8_t* const* x, int64_t ahead, F32x16* sums) {
  const uint8_t* bytes = task.values + row * RowBytes<Products>(task);
  const int64_t full_blocks = task.cols / kLinearBlock;
  const int64_t full_end = end < full_blocks ? end : full_blocks;
  for (int64_t block = begin; block < full_end; ++block) {
    const uint8_t* w = bytes + block * Products::kBlockBytes;
    PrefetchBlock<Products>(w + ahead);
    Products::template AddBlock<kCount, false>(task, row, block, w, x,
                                               block * Products::kInputBlockBytes, sums);
  }
  if (full_end < end) {
    const LastBlock<Products> last(task, row);
    Products::template AddBlock<kCount, false>(task, row, full_blocks, last.bytes, x,
                                               full_blocks * Products::kInputBlockBytes, sums);
  }
}

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
      PrefetchBlock<Products>(w + ahead);
      Products::template AddBlock<1, kScaledInput>(task, row + r, block, w, &x,
                                                   block * Products::kInputBlockBytes, sums + r);
    }
  }
  CACHALOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (full_blocks < BlocksOf(task.cols)) {
      const LastBlock<Products> last(task, row + r);
      Products::template AddBlock<1, kScaledInput>(task, row + r, full_blocks, last.bytes, &x,
                                                   full_blocks * Products::kInputBlockBytes,
                                                   sums + r);
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

template <typename Products>
void MultiplyOne(const LinearTask& task) {
  const uint8_t* x = TokenOf(task, 0);
  if constexpr (Products::kSharesScales) {
    if (BlocksOf(task.cols) * Products::kInputBlockBytes <= kLinearScratchBytes) {
      int64_t end = 0;
      for (int64_t row = task.row_begin; row < task.row_end; row = end) {
        end = Products::EndOfSharing(row);
        end = end < task.row_end ? end : task.row_end;
        Products::ScaleInput(task, row, x, task.scratch);
        MultiplyOneRange<Products, true>(task, row, end, task.scratch, Products::kScaleUnit);
      }
      return;
    }
  }
  MultiplyOneRange<Products, false>(task, task.row_begin, task.row_end, x, 1);
}

// Rows that take turns with the same inputs, and blocks of columns of `count` inputs: both stay in
// the first level.
constexpr int64_t kTurnRows = 16;
CACHALOT_SIMD_FN int64_t TurnBlocks(int count) { return 24 / count; }
constexpr int kFewTokens = 6;

template <typename Products, int kCount>
void MultiplyFew(const LinearTask& task) {
  auto* kept = reinterpret_cast<float*>(task.scratch);  // sums[row][token][lane]
  const uint8_t* x[kCount];
  for (int t = 0; t < kCount; ++t) {
    x[t] = TokenOf(task, t);
  }
  const int64_t blocks = BlocksOf(task.cols);
  for (int64_t begin = task.row_begin; begin < task.row_end; begin += kTurnRows) {
    const int64_t end = begin + kTurnRows < task.row_end ? begin + kTurnRows : task.row_end;
    for (int64_t first = 0; first < blocks; first += TurnBlocks(kCount)) {
      const int64_t last =
          first + TurnBlocks(kCount) < blocks ? first + TurnBlocks(kCount) : blocks;
      for (int64_t row = begin; row < end; ++row) {
        float* row_sums = kept + (row - begin) * kCount * kLanes;
        F32x16 sums[kCount];
        CACHALOT_UNROLL
        for (int t = 0; t < kCount; ++t) {
          sums[t] = first == 0 ? Zero() : Load(row_sums + t * kLanes);
        }
        // Pieces too short and too far apart for the hardware to fetch.
        AddBlocks<Products, kCount>(task, row, first, last, x, kTurnRows * RowBytes<Products>(task),
                                    sums);
        CACHALOT_UNROLL
        for (int t = 0; t < kCount; ++t) {
          if (last == blocks) {
            Finish(task, t, row, sums[t], Products::FactorOf(task, row));
          } else {
            Store(row_sums + t * kLanes, sums[t]);
          }
        }
      }
    }
  }
}

template <typename Products, int kCount>
CACHALOT_SIMD_FN void MultiplyFewTokens(const LinearTask& task) {
  if constexpr (kCount > 2) {
    if (task.tokens < kCount) {
      return MultiplyFewTokens<Products, kCount - 1>(task);
    }
  }
  MultiplyFew<Products, kCount>(task);
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
      PrefetchBlock<Products>(next + (block - begin) * Products::kBlockBytes);
      Products::DecodeBlock(task, row, block, bytes + block * Products::kBlockBytes, to);
    } else {
      Products::DecodeBlock(task, row, block, LastBlock<Products>(task, row).bytes, to);
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
  // Token by token: outputs of neighbouring tokens may lie in the same set of the cache.
  float factors[kLinearRows];
  for (int64_t r = 0; r < num_rows; ++r) {
    factors[r] = Products::FactorOf(task, row + r);
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

template <typename Products>
void Multiply(const LinearTask& task) {
  if (task.tokens == 0) {
    return;
  }
  if (task.tokens == 1) {
    return MultiplyOne<Products>(task);
  }
  if (task.tokens <= kFewTokens) {
    return MultiplyFewTokens<Products, kFewTokens>(task);
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
