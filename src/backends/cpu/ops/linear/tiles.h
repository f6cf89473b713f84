// The kernels of Linear on AMX tiles. A tile of sums is 16 rows of the weight by up to 16 tokens;
// a step adds 64 bytes of each row times 64 bytes of each token (tile_formats.h), steps in rising
// order, so that a sum is the same whatever is computed beside it. Sums may leave the tiles between
// steps and come back; that changes no bit.
//
//              panel: [tile of tokens][step][16 pairs (bf16) or quads (int8) of columns][token]
//                  tokens
//                 +--------+
//   strip         |   B    |  tiles 6, 7
//   [row][step]   +--------+
//     +------+    +--------+
//     |  A   |    |  sums  |  tiles 0 to 3: [tile of rows][tile of tokens][row][token]
//     +------+    +--------+
//     tiles 4, 5
//
// The inputs of a call are brought into the order of B once, as many columns at a time as the panel
// holds, and rows are decoded 32 at a time, 1 KB of each, and multiplied with all tokens: one tile
// of tokens or two, so that no product waits for the one before it.
// Where an input has two limbs, the two tiles of tokens are those of the same tokens.
#pragma once

#include "backends/cpu/ops/linear/tile_formats.h"

// Before a loop over the vectors of a tile.
#if defined(__clang__)
#define CACHALOT_UNROLL_TILE _Pragma("unroll")
#else
#define CACHALOT_UNROLL_TILE _Pragma("GCC unroll 16")
#endif

namespace cachalot::cpu::amx {
namespace {

constexpr int64_t kStripRows = 2 * kTileRows;
constexpr int64_t kStripSteps = 16;
constexpr int64_t kStripRowBytes = kStripSteps * kStepBytes + 64;  // no power of two
static_assert(kStripRows * kStripRowBytes == kTileStripBytes);

// What LDTILECFG reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Eight tiles, those of tokens `width` tokens wide.
CACHALOT_SIMD_FN void ShapeTiles(int64_t width) {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rows[i] = kTileRows;
    shapes.row_bytes[i] = static_cast<uint16_t>(i == 4 || i == 5 ? kStepBytes : width * 4);
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

// The intrinsic that loads a tile does not tell the compiler that it reads memory.
CACHALOT_SIMD_FN void WriteBeforeLoads() { __asm__ volatile("" : : : "memory"); }

// r[i][j] becomes r[j][i], for dwords.
CACHALOT_SIMD_FN void TransposeDwords(__m512i* r) {
  __m512i a[16];
  CACHALOT_UNROLL
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  // r[4 i + c]: column 4 l + c of rows 4 i to 4 i + 3 in 16 bytes l.
  CACHALOT_UNROLL
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  constexpr int kEven = 0x88;  // 16 bytes 0 and 2 of both
  constexpr int kOdd = 0xDD;
  CACHALOT_UNROLL
  for (int c = 0; c < 4; ++c) {
    const __m512i even_low = _mm512_shuffle_i32x4(r[c], r[4 + c], kEven);
    const __m512i even_high = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], kEven);
    const __m512i odd_low = _mm512_shuffle_i32x4(r[c], r[4 + c], kOdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], kOdd);
    r[c] = _mm512_shuffle_i32x4(even_low, even_high, kEven);
    r[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, kEven);
    r[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, kOdd);
    r[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, kOdd);
  }
}

// A tile of `width` tokens for one step, its rows without gaps.
CACHALOT_SIMD_FN void WriteTokenTile(const uint8_t* const* rows, int64_t width, uint8_t* to) {
  __m512i r[kTileRows];
  CACHALOT_UNROLL_TILE
  for (int t = 0; t < kTileRows; ++t) {
    r[t] = _mm512_loadu_si512(rows[t]);
  }
  TransposeDwords(r);
  const auto tokens = static_cast<__mmask16>(FirstOf(width, 16));
  CACHALOT_UNROLL_TILE
  for (int i = 0; i < kTileRows; ++i) {
    _mm512_mask_storeu_epi32(to + i * width * 4, tokens, r[i]);
  }
}

// Sums before and after some steps.
enum class Before { kZero, kInTiles, kInMemory };
enum class After { kInTiles, kInMemory };

// Up to 2 x 2 tiles of sums.
struct Steps {
  const uint8_t* strip;
  const uint8_t* panel;
  int64_t panel_tile;  // bytes from one tile of tokens to the next
  int64_t count;
  int64_t width;
  uint8_t* sums;
  int64_t sums_tile_row;  // bytes from one tile of rows to the next
  Before before;
  After after;
};

template <typename Format, int kRowTiles, int kColTiles>
CACHALOT_SIMD_FN void MultiplySteps(const Steps& steps) {
  const int64_t stride = steps.width * 4;
  const int64_t tile_bytes = kTileRows * stride;
  uint8_t* second = steps.sums + steps.sums_tile_row;
  if (steps.before == Before::kZero) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else if (steps.before == Before::kInMemory) {
    _tile_loadd(0, steps.sums, stride);
    if constexpr (kColTiles == 2) {
      _tile_loadd(1, steps.sums + tile_bytes, stride);
    }
    if constexpr (kRowTiles == 2) {
      _tile_loadd(2, second, stride);
    }
    if constexpr (kRowTiles == 2 && kColTiles == 2) {
      _tile_loadd(3, second + tile_bytes, stride);
    }
  }
  for (int64_t step = 0; step < steps.count; ++step) {
    const uint8_t* a = steps.strip + step * kStepBytes;
    const uint8_t* b = steps.panel + step * tile_bytes;
    _tile_loadd(4, a, kStripRowBytes);
    _tile_loadd(6, b, stride);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, a + kTileRows * kStripRowBytes, kStripRowBytes);
    }
    if constexpr (kColTiles == 2) {
      _tile_loadd(7, b + steps.panel_tile, stride);
    }
    if constexpr (Format::kIntegers) {
      // Weights are signed, and so are high limbs; low ones are not.
      _tile_dpbssd(0, 4, 6);
      _tile_dpbsud(1, 4, 7);
      if constexpr (kRowTiles == 2) {
        _tile_dpbssd(2, 5, 6);
        _tile_dpbsud(3, 5, 7);
      }
    } else {
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (kColTiles == 2) {
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (kRowTiles == 2) {
        _tile_dpbf16ps(2, 5, 6);
      }
      if constexpr (kRowTiles == 2 && kColTiles == 2) {
        _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  if (steps.after == After::kInMemory) {
    _tile_stored(0, steps.sums, stride);
    if constexpr (kColTiles == 2) {
      _tile_stored(1, steps.sums + tile_bytes, stride);
    }
    if constexpr (kRowTiles == 2) {
      _tile_stored(2, second, stride);
    }
    if constexpr (kRowTiles == 2 && kColTiles == 2) {
      _tile_stored(3, second + tile_bytes, stride);
    }
  }
}

template <typename Format>
void MultiplySome(int64_t row_tiles, int64_t col_tiles, const Steps& steps) {
  if constexpr (Format::kLimbs == 1) {
    if (col_tiles == 1) {
      return row_tiles == 1 ? MultiplySteps<Format, 1, 1>(steps)
                            : MultiplySteps<Format, 2, 1>(steps);
    }
  }
  return row_tiles == 1 ? MultiplySteps<Format, 1, 2>(steps) : MultiplySteps<Format, 2, 2>(steps);
}

// Tokens [first, first + tokens) of a task, at most kTileTokens.
template <typename Format>
class TokenBlock {
 public:
  CACHALOT_SIMD_MEMBER TokenBlock(const LinearTask& task, int64_t first, int64_t tokens)
      : task_(task),
        first_(first),
        tokens_(tokens),
        width_(tokens < kTileRows ? tokens : kTileRows),
        token_tiles_((tokens + kTileRows - 1) / kTileRows),
        col_tiles_(token_tiles_ * Format::kLimbs),
        tile_bytes_(kTileRows * width_ * 4),
        blocks_(BlocksOf(task.cols)),
        row_bytes_(task.cols * Format::kBlockBytes / kLinearBlock),
        panel_(task.scratch + kTileStripBytes),
        sums_(panel_ + kTilePanelBytes) {
    // A tile that is not full repeats the last token; nobody reads those sums.
    for (int64_t t = 0; t < token_tiles_ * kTileRows; ++t) {
      const int64_t token = first + (t < tokens ? t : tokens - 1);
      x_[t] = task.x + (task.x_rows != nullptr ? task.x_rows[token] : token) * task.x_stride;
      scales_[t] = Format::ScaleOf(x_[t], task.cols);
    }
    const int64_t block_bytes = col_tiles_ * Format::kBlockSteps * tile_bytes_;
    panel_blocks_ = kTilePanelBytes / block_bytes / kStripBlocks * kStripBlocks;
    panel_tile_ = panel_blocks_ * Format::kBlockSteps * tile_bytes_;
    pass_rows_ = kTileSumsBytes / (2 * col_tiles_ * tile_bytes_) * kStripRows;
  }

  CACHALOT_SIMD_MEMBER void Multiply() {
    ShapeTiles(width_);
    for (int64_t row = task_.row_begin; row < task_.row_end; row += pass_rows_) {
      const int64_t end = row + pass_rows_ < task_.row_end ? row + pass_rows_ : task_.row_end;
      for (int64_t block = 0; block < blocks_; block += panel_blocks_) {
        const int64_t last = block + panel_blocks_ < blocks_ ? block + panel_blocks_ : blocks_;
        if (row == task_.row_begin || blocks_ > panel_blocks_) {
          WritePanel(block, last);
        }
        for (int64_t strip = row; strip < end; strip += kStripRows) {
          MultiplyStrip(strip, end - strip < kStripRows ? end - strip : kStripRows, block, last,
                        sums_ + (strip - row) / kTileRows * col_tiles_ * tile_bytes_);
        }
      }
      for (int64_t r = row; r < end; r += kTileRows) {
        Finish(r, end - r < kTileRows ? end - r : kTileRows,
               sums_ + (r - row) / kTileRows * col_tiles_ * tile_bytes_);
      }
    }
  }

 private:
  static constexpr int64_t kStripBlocks = kStripSteps / Format::kBlockSteps;

  void WritePanel(int64_t begin, int64_t end) const {
    for (int64_t tile = 0; tile < token_tiles_; ++tile) {
      uint8_t* to = panel_ + tile * Format::kLimbs * panel_tile_;
      for (int64_t step = begin * Format::kBlockSteps; step < end * Format::kBlockSteps; ++step) {
        const typename Format::InputSteps inputs(x_ + tile * kTileRows, scales_ + tile * kTileRows,
                                                 step);
        for (int limb = 0; limb < Format::kLimbs; ++limb) {
          WriteTokenTile(inputs.rows[limb], width_, to + limb * panel_tile_);
        }
        to += tile_bytes_;
      }
    }
  }

  // Blocks [begin, end) of a row, while `next`, what the next strip decodes, is fetched.
  CACHALOT_SIMD_MEMBER void DecodeRow(int64_t row, int64_t begin, int64_t end, const uint8_t* next,
                                      uint8_t* to) const {
    const uint8_t* bytes = task_.values + row * row_bytes_;
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t line = 0; line < Format::kBlockBytes; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(next + line), _MM_HINT_T0);
      }
      next += Format::kBlockBytes;
      const int64_t at = block * Format::kBlockBytes;
      Format::Decode(task_, row, block, bytes + at, row_bytes_ - at, to);
      to += Format::kBlockSteps * kStepBytes;
    }
  }

  // Rows [row, row + rows), at most a strip, times columns of blocks [begin, end).
  void MultiplyStrip(int64_t row, int64_t rows, int64_t begin, int64_t end, uint8_t* sums) const {
    const int64_t row_tiles = (rows + kTileRows - 1) / kTileRows;
    for (int64_t block = begin; block < end; block += kStripBlocks) {
      const int64_t last = block + kStripBlocks < end ? block + kStripBlocks : end;
      for (int64_t r = 0; r < row_tiles * kTileRows; ++r) {
        // A tile that is not full repeats the last row; nobody reads those sums.
        const int64_t from = row + (r < rows ? r : rows - 1);
        const int64_t next_row = last < end ? from : from + kStripRows;
        const int64_t next_block = last < end ? last : begin;
        const auto* scales =
            reinterpret_cast<const char*>(Format::ScalesAt(task_, next_row, next_block));
        _mm_prefetch(scales, _MM_HINT_T0);
        DecodeRow(from, block, last,
                  task_.values + next_row * row_bytes_ + next_block * Format::kBlockBytes,
                  task_.scratch + r * kStripRowBytes);
      }
      WriteBeforeLoads();
      // One or two tiles of tokens: their sums stay in the tiles.
      const bool stay = col_tiles_ <= 2;
      for (int64_t col = 0; col < col_tiles_; col += 2) {
        MultiplySome<Format>(row_tiles, col_tiles_ - col,
                             {.strip = task_.scratch,
                              .panel = panel_ + col * panel_tile_ +
                                       (block - begin) * Format::kBlockSteps * tile_bytes_,
                              .panel_tile = panel_tile_,
                              .count = (last - block) * Format::kBlockSteps,
                              .width = width_,
                              .sums = sums + col * tile_bytes_,
                              .sums_tile_row = col_tiles_ * tile_bytes_,
                              .before = block == 0               ? Before::kZero
                                        : stay && block != begin ? Before::kInTiles
                                                                 : Before::kInMemory,
                              .after = stay && last < end ? After::kInTiles : After::kInMemory});
      }
    }
  }

  // A tile of rows, for all tokens.
  void Finish(int64_t row, int64_t rows, const uint8_t* sums) const {
    const auto row_mask = static_cast<__mmask16>(FirstOf(rows, 16));
    for (int64_t tile = 0; tile < token_tiles_; ++tile) {
      const int64_t left = tokens_ - tile * kTileRows;
      const auto token_mask = static_cast<__mmask16>(FirstOf(left, 16));
      const uint8_t* from = sums + tile * Format::kLimbs * tile_bytes_;
      __m512i r[kTileRows];
      CACHALOT_UNROLL_TILE
      for (int i = 0; i < kTileRows; ++i) {
        r[i] = _mm512_castps_si512(Format::SumsOf(task_, row + (i < rows ? i : 0), token_mask,
                                                  from + i * width_ * 4, tile_bytes_,
                                                  scales_ + tile * kTileRows));
      }
      TransposeDwords(r);
      for (int64_t t = 0; t < (left < kTileRows ? left : kTileRows); ++t) {
        float* y = task_.y + (first_ + tile * kTileRows + t) * task_.y_stride + row;
        const __m512 before =
            task_.accumulate ? _mm512_maskz_loadu_ps(row_mask, y) : _mm512_setzero_ps();
        _mm512_mask_storeu_ps(y, row_mask, _mm512_add_ps(before, _mm512_castsi512_ps(r[t])));
      }
    }
  }

  const LinearTask& task_;
  const int64_t first_;
  const int64_t tokens_;
  const int64_t width_;  // tokens of a tile
  const int64_t token_tiles_;
  const int64_t col_tiles_;  // limbs counted
  const int64_t tile_bytes_;
  const int64_t blocks_;
  const int64_t row_bytes_;
  uint8_t* const panel_;
  uint8_t* const sums_;
  int64_t panel_blocks_;
  int64_t panel_tile_;
  int64_t pass_rows_;
  const uint8_t* x_[kTileTokens];
  float scales_[kTileTokens];
};

template <typename Format>
void Multiply(const LinearTask& task) {
  for (int64_t first = 0; first < task.tokens; first += kTileTokens) {
    const int64_t left = task.tokens - first;
    TokenBlock<Format>(task, first, left < kTileTokens ? left : kTileTokens).Multiply();
  }
  _tile_release();
}

template <typename Format>
constexpr LinearKernel kTileKernel = {Format::PackedBytes, Format::Pack, Multiply<Format>};

// A float32 weight has more bits than a tile keeps.
int64_t PackedFloat32Bytes(int64_t cols) { return avx512::kLinearKernels[0].packed_bytes(cols); }
void PackFloat32(const PackTask& task) { avx512::kLinearKernels[0].pack(task); }
void MultiplyFloat32(const LinearTask& task) { avx512::kLinearKernels[0].multiply(task); }

}  // namespace

const LinearKernel kLinearKernels[5] = {{PackedFloat32Bytes, PackFloat32, MultiplyFloat32},
                                        kTileKernel<Bf16Tiles>,
                                        kTileKernel<Fp8Tiles>,
                                        kTileKernel<Fp4Tiles>,
                                        kTileKernel<Int8Tiles>};

}  // namespace cachalot::cpu::amx
