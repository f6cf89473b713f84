#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

inline constexpr int64_t kBlockEntries = 64;

// Queries turned and rounded as the keys are.
struct PrepareQueries {
  const float* q;  // [rows, layout.width]
  int64_t rows;
  RowLayout layout;
  float* prepared;  // as q
};

// Scores of a block of entries for some tokens of one request.
struct ScoreEntries {
  RowLayout layout;
  const void* const* rows;  // [count] rows of the pool
  int64_t count;            // 1 to kBlockEntries
  const float* q;           // [tokens, heads, layout.width], prepared
  const float* weights;     // [tokens, heads]
  int64_t tokens;
  int64_t heads;
  float* values;   // [16, layout.width], scratch
  float* columns;  // [kBlockEntries / 16, layout.width, 16], scratch
  float* scores;   // [tokens, score_stride]; the first `count` of each row are written
  int64_t score_stride;
};

struct IndexerKernels {
  void (*prepare)(const PrepareQueries& task);
  void (*score)(const ScoreEntries& task);
};

namespace avx2 {
IndexerKernels Indexer();
}
namespace avx512 {
IndexerKernels Indexer();
}

const char* VectorIndexerSupports(const IndexerParams& params);
void Avx2Indexer(const IndexerParams& params, Context& context);
void Avx512Indexer(const IndexerParams& params, Context& context);

}  // namespace cachalot::cpu
