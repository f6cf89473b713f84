// Products with weights that are decoded to floats (formats.h), each times its block's scale.
//
// AVX2 has 16 registers of 8 lanes. A tile of 4 rows x 3 tokens with both halves of its 16-lane
// sums would need 24, so it is done one half after the other: 12 sums, 3 registers of x, 1 of
// weights, and 7 loads for 12 Fma. AVX-512 has 32 of 16 lanes: 4 x 6 sums, 6 of x, 1 of weights.
#pragma once

#include "backends/cpu/ops/linear/formats.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

#if defined(__AVX512F__)

using Register = __m512;
constexpr int kRegisterLanes = 16;
constexpr int kFloatTokens = 6;
CACHALOT_SIMD_FN Register LoadRegister(const float* p) { return _mm512_loadu_ps(p); }
CACHALOT_SIMD_FN void StoreRegister(float* p, Register a) { _mm512_storeu_ps(p, a); }
CACHALOT_SIMD_FN Register MulRegisters(Register a, Register b) { return _mm512_mul_ps(a, b); }
CACHALOT_SIMD_FN Register FmaRegisters(Register a, Register b, Register c) {
  return _mm512_fmadd_ps(a, b, c);
}
CACHALOT_SIMD_FN Register PartOf(F32x16 a, int) { return a.v; }

#else

using Register = __m256;
constexpr int kRegisterLanes = 8;
constexpr int kFloatTokens = 3;
CACHALOT_SIMD_FN Register LoadRegister(const float* p) { return _mm256_loadu_ps(p); }
CACHALOT_SIMD_FN void StoreRegister(float* p, Register a) { _mm256_storeu_ps(p, a); }
CACHALOT_SIMD_FN Register MulRegisters(Register a, Register b) { return _mm256_mul_ps(a, b); }
CACHALOT_SIMD_FN Register FmaRegisters(Register a, Register b, Register c) {
  return _mm256_fmadd_ps(a, b, c);
}
CACHALOT_SIMD_FN Register PartOf(F32x16 a, int part) { return part == 0 ? a.lo : a.hi; }

#endif

constexpr int kParts = kLanes / kRegisterLanes;

// Read once: left alone, the compiler reads it again for each use, and reads are what binds.
CACHALOT_SIMD_FN Register Held(Register a) {
  asm("" : "+v"(a));
  return a;
}

// Past the end of the weight it asks in vain and does no harm.
template <int64_t kBytes>
CACHALOT_SIMD_FN void PrefetchBytes(const uint8_t* bytes) {
  CACHALOT_UNROLL
  for (int64_t line = 0; line < kBytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes) + line, _MM_HINT_T0);
  }
}

template <typename Format>
struct FloatProducts {
  static constexpr int64_t kBlockBytes = Format::kBlockBytes;
  static constexpr int64_t kBlockScales = Format::kBlockScales;
  static constexpr int64_t kInputBlockBytes = kLinearBlock * 4;
  static constexpr int64_t kStripRowBytes = (kLinearDepth * kLinearBlock + kLanes) * 4;
  // The sum of one row alone would wait for itself at each step.
  static constexpr int kRowsAtOnce = 2;

  CACHALOT_SIMD_MEMBER static float FactorOf(const LinearTask& task, int64_t row) {
    return Format::FactorOf(task, row);
  }

  // The rows from `row` on that share its scales can share one input that has them in, short of
  // kScaleUnit. The products are the same, scales being powers of two, but cost a row nothing.
  static constexpr bool kSharesScales = kBlockScales > 0;
  static constexpr float kScaleUnit = Format::kScaleUnit;
  CACHALOT_SIMD_MEMBER static int64_t RowScales(const LinearTask& task) {
    return BlocksOf(task.cols) * kBlockScales;
  }
  CACHALOT_SIMD_MEMBER static const uint8_t* ScalesOf(const LinearTask& task, int64_t row) {
    return task.scales + row / kFp8BlockSize * RowScales(task);
  }
  CACHALOT_SIMD_MEMBER static void ScaleInput(const uint8_t* scales, int64_t blocks,
                                              const uint8_t* x, uint8_t* scaled) {
    for (int64_t block = 0; block < blocks; ++block) {
      const F32x16 scale = Broadcast(Format::ScaleOf(scales + block) / kScaleUnit);
      for (int64_t i = 0; i < kInputBlockBytes; i += 64) {
        const int64_t at = block * kInputBlockBytes + i;
        Store(reinterpret_cast<float*>(scaled + at),
              Mul(Load(reinterpret_cast<const float*>(x + at)), scale));
      }
    }
  }

  // Not Mul: AMD multiplies a subnormal slowly, but not where an addition is fused with it.
  CACHALOT_SIMD_MEMBER static F32x16 Scaled(F32x16 value, [[maybe_unused]] F32x16 scale) {
    return kBlockScales > 0 ? Fma(value, scale, Zero()) : value;
  }

  template <bool kScaledInputs>
  CACHALOT_SIMD_MEMBER static void AddBlock(const uint8_t* w, const uint8_t* scales,
                                            const uint8_t* x, F32x16* sum) {
    const F32x16 scale = Broadcast(Format::ScaleOf(scales));
    const auto* input = reinterpret_cast<const float*>(x);
    CACHALOT_UNROLL
    for (int j = 0; j < kBlockVectors; ++j) {
      const F32x16 decoded = Format::Decode(w, j);
      *sum = Fma(kScaledInputs ? decoded : Scaled(decoded, scale), Load(input + j * kLanes), *sum);
    }
  }

  // 8 to 12 sums hide the latency of Fma and leave registers for decoded rows. So the lanes of one
  // register go all the way before those of the next.
  static constexpr int TurnRows(int count) { return count == 2 ? 4 : count == 3 ? 3 : 2; }

  // For formats with scales, inputs that have them in.
  template <int kRows, int kCount>
  CACHALOT_SIMD_MEMBER static void AddRows(const uint8_t* w, const uint8_t*, int64_t row_bytes,
                                           int64_t ahead, int64_t blocks, const uint8_t* const* x,
                                           int64_t x_offset, float* sums, int64_t row_sums) {
    CACHALOT_UNROLL
    for (int part = 0; part < kParts; ++part) {
      AddPart<kRows, kCount>(w, row_bytes, ahead, blocks, x, x_offset, sums, row_sums, part);
    }
  }

  template <int kRows, int kCount>
  CACHALOT_SIMD_MEMBER static void AddPart(const uint8_t* w, int64_t row_bytes, int64_t ahead,
                                           int64_t blocks, const uint8_t* const* x,
                                           int64_t x_offset, float* sums, int64_t row_sums,
                                           int part) {
    constexpr int64_t kPartBytes = kBlockBytes / kParts;
    const int lane = part * kRegisterLanes;
    Register acc[kRows][kCount];
    const float* inputs[kCount];
    CACHALOT_UNROLL
    for (int t = 0; t < kCount; ++t) {
      inputs[t] = reinterpret_cast<const float*>(x[t] + x_offset) + lane;
      CACHALOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        acc[r][t] = LoadRegister(sums + r * row_sums + t * kLanes + lane);
      }
    }
    for (int64_t block = 0; block < blocks; ++block) {
      CACHALOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        PrefetchBytes<kPartBytes>(w + r * row_bytes + ahead + part * kPartBytes);
      }
      CACHALOT_UNROLL
      for (int j = 0; j < kBlockVectors; ++j) {
        Register value[kRows];
        CACHALOT_UNROLL
        for (int r = 0; r < kRows; ++r) {
          value[r] = PartOf(Format::Decode(w + r * row_bytes, j), part);
        }
        CACHALOT_UNROLL
        for (int t = 0; t < kCount; ++t) {
          const Register input = Held(LoadRegister(inputs[t] + j * kLanes));
          CACHALOT_UNROLL
          for (int r = 0; r < kRows; ++r) {
            acc[r][t] = FmaRegisters(value[r], input, acc[r][t]);
          }
        }
      }
      w += kBlockBytes;
      CACHALOT_UNROLL
      for (int t = 0; t < kCount; ++t) {
        inputs[t] += kLinearBlock;
      }
    }
    CACHALOT_UNROLL
    for (int t = 0; t < kCount; ++t) {
      CACHALOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        StoreRegister(sums + r * row_sums + t * kLanes + lane, acc[r][t]);
      }
    }
  }

  CACHALOT_SIMD_MEMBER static void DecodeBlock(const uint8_t* w, const uint8_t* scales,
                                               uint8_t* decoded) {
    const F32x16 scale = Broadcast(Format::ScaleOf(scales));
    auto* to = reinterpret_cast<float*>(decoded);
    CACHALOT_UNROLL
    for (int j = 0; j < kBlockVectors; ++j) {
      Store(to + j * kLanes, Scaled(Format::Decode(w, j), scale));
    }
  }

  static constexpr int kTileRows = 4;
  static constexpr int kTileTokens = kFloatTokens;

  template <int kCount>
  static void MultiplyTile(const uint8_t* decoded, const uint8_t* const* x, int64_t x_offset,
                           int64_t blocks, float* sums, int64_t row_sums) {
    const auto* rows = reinterpret_cast<const float*>(decoded);
    const float* inputs[kCount];
    CACHALOT_UNROLL
    for (int t = 0; t < kCount; ++t) {
      inputs[t] = reinterpret_cast<const float*>(x[t] + x_offset);
    }
    for (int lane = 0; lane < kLanes; lane += kRegisterLanes) {
      Register acc[kCount][kTileRows];
      CACHALOT_UNROLL
      for (int t = 0; t < kCount; ++t) {
        CACHALOT_UNROLL
        for (int r = 0; r < kTileRows; ++r) {
          acc[t][r] = LoadRegister(sums + r * row_sums + t * kLanes + lane);
        }
      }
      for (int64_t c = lane; c < blocks * kLinearBlock; c += kLanes) {
        Register input[kCount];
        CACHALOT_UNROLL
        for (int t = 0; t < kCount; ++t) {
          input[t] = LoadRegister(inputs[t] + c);
        }
        CACHALOT_UNROLL
        for (int r = 0; r < kTileRows; ++r) {
          const Register row = LoadRegister(rows + r * (kStripRowBytes / 4) + c);
          CACHALOT_UNROLL
          for (int t = 0; t < kCount; ++t) {
            acc[t][r] = FmaRegisters(row, input[t], acc[t][r]);
          }
        }
      }
      CACHALOT_UNROLL
      for (int t = 0; t < kCount; ++t) {
        CACHALOT_UNROLL
        for (int r = 0; r < kTileRows; ++r) {
          StoreRegister(sums + r * row_sums + t * kLanes + lane, acc[t][r]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace cachalot::cpu::CACHALOT_SIMD
