// The streams of one token mixed; compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/hc_post/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

// `count` columns from `column` on. All streams of a column are read before the first is written.
// With kStreams 0 their number is the task's.
template <int kStreams, bool kWhole>
CACHALOT_SIMD_FN void MixVector(const MixStreamsTask& task, int64_t column, int count) {
  const int64_t streams = kStreams > 0 ? kStreams : task.streams;
  const auto load = [&](const float* p) { return kWhole ? Load(p) : LoadFirst(p, count); };
  const F32x16 y = load(task.y + column);
  F32x16 x[kStreams > 0 ? kStreams : kMaxStreams] = {};
  CACHALOT_UNROLL
  for (int64_t i = 0; i < streams; ++i) {
    x[i] = load(task.x + i * task.width + column);
  }
  CACHALOT_UNROLL
  for (int64_t j = 0; j < streams; ++j) {
    F32x16 sum = Mul(Broadcast(task.post[j]), y);
    CACHALOT_UNROLL
    for (int64_t i = 0; i < streams; ++i) {
      sum = Fma(Broadcast(task.comb[i * streams + j]), x[i], sum);
    }
    if (kWhole) {
      Store(task.x + j * task.width + column, sum);
    } else {
      StoreFirst(task.x + j * task.width + column, sum, count);
    }
  }
}

template <int kStreams>
void MixColumns(const MixStreamsTask& task) {
  int64_t c = task.begin;
  for (; c + kLanes <= task.end; c += kLanes) {
    MixVector<kStreams, true>(task, c, kLanes);
  }
  if (c < task.end) {
    MixVector<kStreams, false>(task, c, static_cast<int>(task.end - c));
  }
}

}  // namespace

void MixStreams(const MixStreamsTask& task) {
  if (task.streams == 4) {
    MixColumns<4>(task);
  } else {
    MixColumns<0>(task);
  }
}

}  // namespace cachalot::cpu::CACHALOT_SIMD
