// Weights that are multiplied as floats, one struct per MatrixFormat. 128 columns are 8 vectors of
// 16 lanes, in the order in which stored bytes come apart with the fewest instructions: a lane
// takes its values from one dword, so vector j holds
//   f32    column 16 j + lane
//   bf16   column 32 (j / 2) + 2 lane + j % 2
//   8 bit  column 64 (j / 4) + 4 lane + j % 4
// PackFloats brings inputs into the same order.
//   kBlockBytes           stored bytes of 128 columns
//   kLaneColumns          neighbouring columns of a lane
//   Decode(block, j)      vector j
//   kBlockScales          stored scales of a block, 0 or 1
//   ScaleOf               what a block is multiplied by, kScaleUnit times its scale
//   kInputScale           what inputs are multiplied by
//   FactorOf              what whole sums are multiplied by
#pragma once

#include "backends/cpu/ops/linear/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

constexpr int kBlockVectors = 8;

CACHALOT_SIMD_FN int64_t BlocksOf(int64_t cols) { return (cols + kLinearBlock - 1) / kLinearBlock; }

struct Unscaled {
  static constexpr int64_t kBlockScales = 0;
  static constexpr float kInputScale = 1;
  static constexpr float kScaleUnit = 1;
  CACHALOT_SIMD_MEMBER static float ScaleOf(const uint8_t*) { return 1; }
  CACHALOT_SIMD_MEMBER static float FactorOf(const LinearTask&, int64_t) { return 1; }
};

struct F32Format : Unscaled {
  static constexpr int64_t kBlockBytes = 512;
  static constexpr int kLaneColumns = 1;
  CACHALOT_SIMD_MEMBER static F32x16 Decode(const uint8_t* block, int j) {
    return AsFloats(LoadInts(block + 64 * j));
  }
};

struct Bf16Format : Unscaled {
  static constexpr int64_t kBlockBytes = 256;
  static constexpr int kLaneColumns = 2;
  CACHALOT_SIMD_MEMBER static F32x16 Decode(const uint8_t* block, int j) {
    const I32x16 pairs = LoadInts(block + j / 2 * 64);
    return AsFloats(j % 2 == 0 ? ShiftLeft(pairs, 16) : And(pairs, 0xFFFF0000U));
  }
};

// e4m3 read as the top of a float32: sign, exponent and mantissa where they belong, the exponent
// short of 120. Subnormals are right too, as subnormal floats. The NaN codes come out as +-480.
// The 120 are made good in two parts, so that no sum leaves the range of float32.
struct Fp8Format {
  static constexpr int64_t kBlockBytes = 128;
  static constexpr int kLaneColumns = 4;
  static constexpr int64_t kBlockScales = 1;
  static constexpr float kInputScale = 0x1p80F;
  static constexpr float kScaleUnit = 0x1p40F;
  CACHALOT_SIMD_MEMBER static F32x16 Decode(const uint8_t* block, int j) {
    const I32x16 codes = ShiftLeft(LoadInts(block + j / 4 * 64), 24 - j % 4 * 8);
    return AsFloats(And(ShiftRightSigned(codes, 4), 0x87F00000U));
  }
  CACHALOT_SIMD_MEMBER static float ScaleOf(const uint8_t* scale) {
    return FromUe8m0(*scale) * kScaleUnit;
  }
  CACHALOT_SIMD_MEMBER static float FactorOf(const LinearTask&, int64_t) { return 1; }
};

struct Int8Format : Unscaled {
  static constexpr int64_t kBlockBytes = 128;
  static constexpr int kLaneColumns = 4;
  CACHALOT_SIMD_MEMBER static F32x16 Decode(const uint8_t* block, int j) {
    const I32x16 bytes = ShiftLeft(LoadInts(block + j / 4 * 64), 24 - j % 4 * 8);
    return ToFloats(ShiftRightSigned(bytes, 24));
  }
  CACHALOT_SIMD_MEMBER static float FactorOf(const LinearTask& task, int64_t row) {
    return reinterpret_cast<const float*>(task.scales)[row];
  }
};

// Four lanes of kLaneColumns vectors from the 4 kLaneColumns columns at x.
template <int kLaneColumns>
CACHALOT_SIMD_FN void PackLanes(const float* x, __m128 scale, float* packed) {
  __m128 in[kLaneColumns];
  CACHALOT_UNROLL
  for (int i = 0; i < kLaneColumns; ++i) {
    in[i] = _mm_mul_ps(_mm_loadu_ps(x + 4 * i), scale);
  }
  if constexpr (kLaneColumns == 2) {
    const __m128 even = _mm_shuffle_ps(in[0], in[1], _MM_SHUFFLE(2, 0, 2, 0));
    in[1] = _mm_shuffle_ps(in[0], in[1], _MM_SHUFFLE(3, 1, 3, 1));
    in[0] = even;
  } else if constexpr (kLaneColumns == 4) {
    _MM_TRANSPOSE4_PS(in[0], in[1], in[2], in[3]);
  }
  CACHALOT_UNROLL
  for (int i = 0; i < kLaneColumns; ++i) {
    _mm_storeu_ps(packed + i * kLanes, in[i]);
  }
}

template <typename Format>
int64_t PackedFloatsBytes(int64_t cols) {
  return (BlocksOf(cols) * kLinearBlock + kLanes) * 4;  // one more vector: no power of two
}

template <typename Format>
void PackFloats(const PackTask& task) {
  constexpr int64_t kStep = 4 * Format::kLaneColumns;
  constexpr int64_t kUnit = kLanes * Format::kLaneColumns;
  const __m128 scale = _mm_set1_ps(Format::kInputScale);
  auto* packed = reinterpret_cast<float*>(task.packed);
  const int64_t end = task.end < task.cols ? task.end : BlocksOf(task.cols) * kLinearBlock;
  for (int64_t col = task.begin; col < end; col += kStep) {
    float* to = packed + col / kUnit * kUnit + col % kUnit / Format::kLaneColumns;
    if (col + kStep <= task.cols) {
      PackLanes<Format::kLaneColumns>(task.x + col, scale, to);
      continue;
    }
    float last[kStep] = {};
    for (int64_t i = 0; col + i < task.cols; ++i) {
      last[i] = task.x[col + i];
    }
    PackLanes<Format::kLaneColumns>(last, scale, to);
  }
}

}  // namespace
}  // namespace cachalot::cpu::CACHALOT_SIMD
