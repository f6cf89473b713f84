// The kernels, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/indexer/vector.h"
#include "backends/cpu/ops/rows_simd.h"
#include "backends/cpu/ops/tile_simd.h"
#include "backends/cpu/ops/transforms_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

void Prepare(const PrepareQueries& task) {
  const int64_t width = task.layout.width;
  for (int64_t row = 0; row < task.rows; ++row) {
    float* prepared = task.prepared + row * width;
    for (int64_t i = 0; i < width; i += kLanes) {
      Store(prepared + i, Load(task.q + row * width + i));
    }
    HadamardRow(prepared, width);
    RoundRow(task.layout, prepared, prepared);
  }
}

// Adds the heads of a tile to the scores of its entries, in rising order of heads.
struct HeadTile {
  const ScoreEntries& task;
  const float* q;
  const float* weights;
  F32x16* scores;  // [kTileVectors]

  template <int kRows, int kVectors>
  void Run(int64_t head, int64_t vector) const {
    const int64_t width = task.layout.width;
    Tile<kRows, kVectors> tile;
    Clear(tile);
    AddProduct(tile, q + head * width, width, task.columns + vector * width * kLanes, kLanes,
               width * kLanes, width);
    for (int r = 0; r < kRows; ++r) {
      const F32x16 weight = Broadcast(weights[head + r]);
      for (int v = 0; v < kVectors; ++v) {
        scores[v] = Fma(Max(tile.sums[r][v], Zero()), weight, scores[v]);
      }
    }
  }
};

template <int kVectors>
CACHALOT_SIMD_FN void ScoreVectors(const ScoreEntries& task, int64_t token, int64_t vector) {
  F32x16 scores[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    scores[v] = Zero();
  }
  const HeadTile tile = {task, task.q + token * task.heads * task.layout.width,
                         task.weights + token * task.heads, scores};
  ForEachRowTile<kVectors>(task.heads, vector, tile);
  for (int v = 0; v < kVectors; ++v) {
    const int64_t first = (vector + v) * kLanes;
    const int64_t left = task.count - first;
    StoreFirst(task.scores + token * task.score_stride + first, scores[v],
               static_cast<int>(left < kLanes ? left : kLanes));
  }
}

void Score(const ScoreEntries& task) {
  const int64_t width = task.layout.width;
  for (int64_t entry = 0; entry < task.count; entry += kLanes) {
    const int64_t left = task.count - entry;
    DecodeRows(task.layout, task.rows + entry, left < kLanes ? left : kLanes, task.values, width,
               task.columns + entry * width);
  }
  const int64_t vectors = (task.count + kLanes - 1) / kLanes;
  for (int64_t token = 0; token < task.tokens; ++token) {
    int64_t vector = 0;
    for (; vector + kTileVectors <= vectors; vector += kTileVectors) {
      ScoreVectors<kTileVectors>(task, token, vector);
    }
    for (; vector < vectors; ++vector) {
      ScoreVectors<1>(task, token, vector);
    }
  }
}

}  // namespace

IndexerKernels Indexer() { return {Prepare, Score}; }

}  // namespace cachalot::cpu::CACHALOT_SIMD
