// The kernel, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/compressor/vector.h"
#include "backends/cpu/ops/rows_simd.h"
#include "backends/cpu/ops/transforms_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

// One addition, as the state has it.
CACHALOT_SIMD_FN F32x16 ScoreAt(const PooledToken& token, int64_t channel) {
  const F32x16 score = Load(token.score + channel);
  return token.ape == nullptr ? score : Add(score, Load(token.ape + channel));
}

// The sum over tokens of kv * softmax(score), for 16 channels.
CACHALOT_SIMD_FN F32x16 PoolChannels(const CompressEntry& entry, int64_t channel) {
  F32x16 top = ScoreAt(entry.tokens[0], channel);
  for (int64_t i = 1; i < entry.num_tokens; ++i) {
    top = Max(ScoreAt(entry.tokens[i], channel), top);
  }
  F32x16 sum = Zero();
  F32x16 weights = Zero();
  for (int64_t i = 0; i < entry.num_tokens; ++i) {
    const F32x16 weight = Exp(Sub(ScoreAt(entry.tokens[i], channel), top));
    weights = Add(weights, weight);
    sum = Fma(weight, Load(entry.tokens[i].kv + channel), sum);
  }
  return Div(sum, weights);
}

}  // namespace

void Compress(const CompressEntry& entry) {
  const int64_t width = entry.layout.width;
  for (int64_t channel = 0; channel < width; channel += kLanes) {
    Store(entry.values + channel, PoolChannels(entry, channel));
  }
  NormRow(entry.values, entry.norm, entry.values, width, entry.eps);
  RotatePairs(entry.values + width - entry.rope_dim, entry.cosines, entry.sines, entry.rope_dim);
  if (entry.hadamard) {
    HadamardRow(entry.values, width);
  }
  EncodeRow(entry.layout, entry.values, entry.row);
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
