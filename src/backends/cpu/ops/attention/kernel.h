// The kernels, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/attention/vector.h"
#include "backends/cpu/ops/tile_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

void Decode(const DecodeKeys& task) {
  DecodeRows(task.layout, task.rows, task.count, task.out.rows, task.out.stride, task.out.columns);
}

void Begin(const AttentionHeads& heads) {
  for (int64_t h = 0; h < heads.heads; ++h) {
    heads.top[h] = heads.sink[h];
    heads.total[h] = 1;
    for (int64_t i = 0; i < heads.width; i += kLanes) {
      Store(heads.o + h * heads.width + i, Zero());
    }
  }
}

struct ScoreTile {
  const AttendBlock& block;

  template <int kRows, int kVectors>
  void Run(int64_t head, int64_t vector) const {
    Tile<kRows, kVectors> tile;
    Clear(tile);
    AddProduct(tile, block.q + head * block.width, block.width,
               block.keys.columns + vector * block.width * kLanes, kLanes, block.width * kLanes,
               block.width);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        Store(block.scores + (head + r) * kBlockKeys + (vector + v) * kLanes,
              Mul(tile.sums[r][v], Broadcast(block.scale)));
      }
    }
  }
};

// Scores become p; what was summed under the old top is to be multiplied by rescale.
CACHALOT_SIMD_FN void ScoresToWeights(const AttendBlock& block, int64_t head) {
  float* scores = block.scores + head * kBlockKeys;
  const int64_t padded = (block.count + kLanes - 1) / kLanes * kLanes;
  for (int64_t key = block.count; key < padded; ++key) {
    scores[key] = -__builtin_inff();
  }
  F32x16 top = Broadcast(block.top[head]);
  for (int64_t key = 0; key < padded; key += kLanes) {
    top = Max(Load(scores + key), top);
  }
  top = Broadcast(MaxOf(top));
  F32x16 total = Zero();
  for (int64_t key = 0; key < padded; key += kLanes) {
    const F32x16 weight = Exp(Sub(Load(scores + key), top));
    Store(scores + key, weight);
    total = Add(total, weight);
  }
  const F32x16 rescale = Exp(Sub(Broadcast(block.top[head]), top));
  StoreFirst(block.rescale + head, rescale, 1);
  StoreFirst(block.top + head, top, 1);
  block.total[head] = __builtin_fmaf(block.total[head], block.rescale[head], Sum(total));
}

struct ValueTile {
  const AttendBlock& block;

  template <int kRows, int kVectors>
  void Run(int64_t head, int64_t vector) const {
    Tile<kRows, kVectors> tile;
    float* o = block.o + head * block.width + vector * kLanes;
    for (int r = 0; r < kRows; ++r) {
      const F32x16 rescale = Broadcast(block.rescale[head + r]);
      for (int v = 0; v < kVectors; ++v) {
        tile.sums[r][v] = Mul(Load(o + r * block.width + v * kLanes), rescale);
      }
    }
    AddProduct(tile, block.scores + head * kBlockKeys, kBlockKeys,
               block.keys.rows + vector * kLanes, block.keys.stride, kLanes, block.count);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        Store(o + r * block.width + v * kLanes, tile.sums[r][v]);
      }
    }
  }
};

void Attend(const AttendBlock& block) {
  ForEachTile(block.heads, (block.count + kLanes - 1) / kLanes, ScoreTile{block});
  for (int64_t head = 0; head < block.heads; ++head) {
    ScoresToWeights(block, head);
  }
  ForEachTile(block.heads, block.width / kLanes, ValueTile{block});
}

void Finish(const AttentionHeads& heads) {
  for (int64_t h = 0; h < heads.heads; ++h) {
    const F32x16 inverse = Broadcast(1 / heads.total[h]);
    for (int64_t i = 0; i < heads.width; i += kLanes) {
      float* o = heads.o + h * heads.width + i;
      Store(o, Mul(Load(o), inverse));
    }
  }
}

}  // namespace

AttentionKernels Attention() { return {Decode, Begin, Attend, Finish}; }

}  // namespace cachalot::cpu::CACHALOT_SIMD
