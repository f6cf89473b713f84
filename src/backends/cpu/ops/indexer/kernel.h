// The kernels, compiled by avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/ops/indexer/candidates_simd.h"
#include "backends/cpu/ops/indexer/dots_simd.h"
#include "backends/cpu/ops/indexer/vector.h"
#include "backends/cpu/ops/transforms_simd.h"

namespace cachalot::cpu::CACHALOT_SIMD {
namespace {

// Heads whose dot products with 16 keys are summed together, in registers.
#if defined(__AVX512F__)
constexpr int kHeadTile = 8;
#else
constexpr int kHeadTile = 4;
#endif

template <typename DotsOf>
void PrepareRows(const PrepareQueries& task) {
  const int64_t width = task.layout.width;
  for (int64_t row = 0; row < task.rows; ++row) {
    for (int64_t i = 0; i < width; i += kLanes) {
      Store(task.turned + i, Load(task.q + row * width + i));
    }
    HadamardRow(task.turned, width);
    DotsOf::Prepare(task.layout, task.turned, task.prepared + row * task.query_bytes);
  }
}

template <int kHeads, typename DotsOf>
CACHALOT_SIMD_FN F32x16 AddHeads(const ScoreEntries& task, const uint8_t* queries,
                                 const float* weights, const uint8_t* keys, F32x16 score) {
  F32x16 dots[kHeads];
  DotsOf::template Dots<kHeads>(task.layout.width, queries, task.query_bytes, keys, dots);
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    score = Fma(Max(dots[h], Zero()), Broadcast(weights[h]), score);
  }
  return score;
}

// The scores of 16 entries, summed in rising order of heads.
template <typename DotsOf>
CACHALOT_SIMD_FN F32x16 ScoreVector(const ScoreEntries& task, int64_t token, const uint8_t* keys) {
  const uint8_t* queries = task.queries + token * task.heads * task.query_bytes;
  const float* weights = task.weights + token * task.heads;
  F32x16 score = Zero();
  int64_t head = 0;
  for (; head + kHeadTile <= task.heads; head += kHeadTile) {
    score = AddHeads<kHeadTile, DotsOf>(task, queries + head * task.query_bytes, weights + head,
                                        keys, score);
  }
  for (; head < task.heads; ++head) {
    score =
        AddHeads<1, DotsOf>(task, queries + head * task.query_bytes, weights + head, keys, score);
  }
  return score;
}

template <typename DotsOf>
void ScoreRows(const ScoreEntries& task) {
  const int64_t key_bytes = DotsOf::KeyBytes(task.layout.width);
  for (int64_t i = 0; i < task.count; i += kLanes) {
    const int64_t left = task.count - i;
    DotsOf::Keys(task.layout, task.rows + i, left < kLanes ? left : kLanes, task.decoded,
                 task.keys + i / kLanes * key_bytes);
  }
  for (int64_t token = 0; token < task.tokens; ++token) {
    const int64_t complete = (task.first_position + token + 1) / 4 - task.first_entry;
    const int64_t count = complete < task.count ? complete : task.count;
    if (count <= 0) {
      continue;
    }
    float scores[kBlockEntries];
    for (int64_t i = 0; i < count; i += kLanes) {
      Store(scores + i, ScoreVector<DotsOf>(task, token, task.keys + i / kLanes * key_bytes));
    }
    Candidates& candidates = task.candidates[token];
    if (candidates.count + kBlockEntries > task.capacity) {
      KeepLargest(candidates, task.top_k);
    }
    Offer(candidates, scores, count, task.first_entry);
  }
}

void Prepare(const PrepareQueries& task) {
  switch (task.layout.format) {
    case RowFormat::kFp4:
      return PrepareRows<Fp4Dots>(task);
    case RowFormat::kInt8:
      return PrepareRows<Int8Dots>(task);
    default:
      return PrepareRows<FloatDots>(task);
  }
}

void Score(const ScoreEntries& task) {
  switch (task.layout.format) {
    case RowFormat::kFp4:
      return ScoreRows<Fp4Dots>(task);
    case RowFormat::kInt8:
      return ScoreRows<Int8Dots>(task);
    default:
      return ScoreRows<FloatDots>(task);
  }
}

void Keep(Candidates& candidates, int64_t top_k) { KeepLargest(candidates, top_k); }

}  // namespace

IndexerKernels Indexer() { return {Prepare, Score, Keep}; }

}  // namespace cachalot::cpu::CACHALOT_SIMD
