#include <immintrin.h>

#include "backends/cpu/limits/probes.h"

namespace cachalot::cpu::amx {
namespace {

constexpr int kRows = 16;
constexpr int kRowBytes = 64;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// g++ 12 takes the tile intrinsics to read less memory than they do: what stands there must have been
// written.
void WriteOut(const void* data) { __asm__ volatile("" : : "r"(data) : "memory"); }

void Configure() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kRowBytes;
    config.rows[tile] = kRows;
  }
  WriteOut(&config);
  _tile_loadconfig(&config);
}

// Tiles 0 to 3 are sums, 4 and 5 left, 6 and 7 right factors.
template <typename T>
void LoadTiles(T left, T right) {
  constexpr int kValues = kRows * kRowBytes / static_cast<int>(sizeof(T));
  alignas(64) T lefts[kValues];
  alignas(64) T rights[kValues];
  for (int i = 0; i < kValues; ++i) {
    lefts[i] = left;
    rights[i] = right;
  }
  WriteOut(lefts);
  WriteOut(rights);
  Configure();
  _tile_loadd(4, lefts, kRowBytes);
  _tile_loadd(5, lefts, kRowBytes);
  _tile_loadd(6, rights, kRowBytes);
  _tile_loadd(7, rights, kRowBytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

template <typename T>
double SumTiles() {
  alignas(64) T values[4][kRows * kRowBytes / sizeof(T)];
  _tile_stored(0, values[0], kRowBytes);
  _tile_stored(1, values[1], kRowBytes);
  _tile_stored(2, values[2], kRowBytes);
  _tile_stored(3, values[3], kRowBytes);
  _tile_release();
  double total = 0;
  for (const auto& tile : values) {
    for (const T value : tile) {
      total += static_cast<double>(value);
    }
  }
  return total;
}

double MultiplyBf16(int64_t rounds) {
  constexpr uint16_t kOne = 0x3F80;
  constexpr uint16_t kSixteenth = 0x3D80;  // times 32 products: 2 for each sum
  LoadTiles(kOne, kSixteenth);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return SumTiles<float>();
}

double MultiplyInt8(int64_t rounds) {
  LoadTiles<int8_t>(-1, -2);  // times 64 products: 128 for each sum
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  return SumTiles<int32_t>();
}

}  // namespace

const Peak kBf16 = {MultiplyBf16, 4 * 2 * kRows* kRows*(kRowBytes / 2)};
const Peak kInt8 = {MultiplyInt8, 4 * 2 * kRows* kRows* kRowBytes};

}  // namespace cachalot::cpu::amx
