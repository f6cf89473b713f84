// The streams of one token mixed; compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/hc_post/vector.h"
#include "backends/cpu/ops/simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

// All streams of a column are read before the first is written. With kStreams 0 their number is
// the task's.
template <int kStreams>
void MixColumns(const MixStreamsTask& task) {
  const int64_t streams = kStreams > 0 ? kStreams : task.streams;
  for (int64_t c = task.begin; c < task.end; c += kLanes) {
    const int64_t left = task.end - c;
    const int n = left < kLanes ? static_cast<int>(left) : kLanes;
    const F32x16 y = LoadFirst(task.y + c, n);
    F32x16 x[kStreams > 0 ? kStreams : kMaxStreams] = {};
    CACHALOT_UNROLL
    for (int64_t i = 0; i < streams; ++i) {
      x[i] = LoadFirst(task.x + i * task.width + c, n);
    }
    CACHALOT_UNROLL
    for (int64_t j = 0; j < streams; ++j) {
      F32x16 sum = Mul(Broadcast(task.post[j]), y);
      CACHALOT_UNROLL
      for (int64_t i = 0; i < streams; ++i) {
        sum = Fma(Broadcast(task.comb[i * streams + j]), x[i], sum);
      }
      StoreFirst(task.x + j * task.width + c, sum, n);
    }
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
