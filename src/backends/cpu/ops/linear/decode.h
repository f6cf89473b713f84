// The rows of a weight as floats, 32 columns at a time, one struct per MatrixFormat:
//   kUnitBytes          stored bytes of 32 columns
//   Start(task, row)    points at a row
//   EnterBlock(b)       before columns [128 b, 128 b + 128) are decoded
//   Decode(bytes, unit) 32 columns from `bytes`; they are the unit-th of the block
//   factor              what sums over decoded values still lack; a power of two, or for int8 the
//                       row's scale
// Every value is exact, so it does not matter where a scale is multiplied in.
#pragma once

#include "backends/cpu/ops/linear/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

constexpr int64_t kBlockCols = 128;  // of an fp8 scale; four units
constexpr int64_t kUnitCols = 32;

// 2^(code - 127) for all codes: a table costs one load where arithmetic costs eight instructions.
struct Ue8m0Table {
  float value[256];
};
constexpr Ue8m0Table MakeUe8m0Table() {
  Ue8m0Table table = {};
  for (uint32_t code = 0; code < 256; ++code) {
    table.value[code] = FromUe8m0(static_cast<uint8_t>(code));
  }
  return table;
}
constexpr Ue8m0Table kUe8m0 = MakeUe8m0Table();

struct F32Rows {
  static constexpr int64_t kUnitBytes = 128;
  const uint8_t* bytes;
  float factor;

  CACHALOT_SIMD_MEMBER void Start(const LinearTask& task, int64_t row) {
    bytes = task.values + row * task.cols * 4;
    factor = 1;
  }
  CACHALOT_SIMD_MEMBER void EnterBlock(int64_t) {}
  CACHALOT_SIMD_MEMBER F32x32 Decode(const uint8_t* from, int) const {
    const float* values = reinterpret_cast<const float*>(from);
    return {Load(values), Load(values + kLanes)};
  }
};

struct Bf16Rows {
  static constexpr int64_t kUnitBytes = 64;
  const uint8_t* bytes;
  float factor;

  CACHALOT_SIMD_MEMBER void Start(const LinearTask& task, int64_t row) {
    bytes = task.values + row * task.cols * 2;
    factor = 1;
  }
  CACHALOT_SIMD_MEMBER void EnterBlock(int64_t) {}
  CACHALOT_SIMD_MEMBER F32x32 Decode(const uint8_t* from, int) const {
    return {LoadBf16(from), LoadBf16(from + 32)};
  }
};

struct Fp8Rows {
  static constexpr int64_t kUnitBytes = 32;
  const uint8_t* bytes;
  const uint8_t* scales;
  F32x16 scale = {};
  float factor;

  CACHALOT_SIMD_MEMBER void Start(const LinearTask& task, int64_t row) {
    bytes = task.values + row * task.cols;
    scales = task.scales + row / kBlockCols * ((task.cols + kBlockCols - 1) / kBlockCols);
    factor = kE4m3Unit;
  }
  CACHALOT_SIMD_MEMBER void EnterBlock(int64_t block) {
    scale = Broadcast(kUe8m0.value[scales[block]]);
  }
  CACHALOT_SIMD_MEMBER F32x32 Decode(const uint8_t* from, int) const {
    return {Mul(LoadE4m3(from), scale), Mul(LoadE4m3(from + 16), scale)};
  }
};

struct Fp4Rows {
  static constexpr int64_t kUnitBytes = 16;
  const uint8_t* bytes;
  const uint8_t* scales;
  const uint8_t* block_scales = nullptr;
  float factor;

  CACHALOT_SIMD_MEMBER void Start(const LinearTask& task, int64_t row) {
    bytes = task.values + row * (task.cols / 2);
    scales = task.scales + row * (task.cols / kUnitCols);
    factor = kE2m1Unit;
  }
  CACHALOT_SIMD_MEMBER void EnterBlock(int64_t block) { block_scales = scales + block * 4; }
  CACHALOT_SIMD_MEMBER F32x32 Decode(const uint8_t* from, int unit) const {
    const F32x16 scale = Broadcast(kUe8m0.value[block_scales[unit]]);
    const F32x32 twice = LoadE2m1(from);
    return {Mul(twice.first, scale), Mul(twice.second, scale)};
  }
};

struct Int8Rows {
  static constexpr int64_t kUnitBytes = 32;
  const uint8_t* bytes;
  float factor;

  CACHALOT_SIMD_MEMBER void Start(const LinearTask& task, int64_t row) {
    bytes = task.values + row * task.cols;
    factor = reinterpret_cast<const float*>(task.scales)[row];
  }
  CACHALOT_SIMD_MEMBER void EnterBlock(int64_t) {}
  CACHALOT_SIMD_MEMBER F32x32 Decode(const uint8_t* from, int) const {
    return {LoadInt8(from), LoadInt8(from + 16)};
  }
};

// The last n < 32 columns of a row, then zeros.
template <typename Rows>
CACHALOT_SIMD_MEMBER F32x32 DecodeFirst(const Rows& rows, const uint8_t* from, int unit, int n) {
  alignas(64) uint8_t unit_bytes[Rows::kUnitBytes] = {};
  const int64_t bytes = n * Rows::kUnitBytes / kUnitCols;
  for (int64_t i = 0; i < bytes; ++i) {
    unit_bytes[i] = from[i];
  }
  return rows.Decode(unit_bytes, unit);
}

}  // namespace
}  // namespace cachalot::cpu::CACHALOT_SIMD
