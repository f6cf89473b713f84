#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

inline constexpr int64_t kBlockEntries = 64;

// Queries turned by the Hadamard matrix and rounded as the keys are, in the form that the dot
// products with keys of this layout take (dots_simd.h).
struct PrepareQueries {
  const float* q;  // [rows, layout.width]
  int64_t rows;
  RowLayout layout;
  float* turned;      // [layout.width], scratch
  uint8_t* prepared;  // [rows, query_bytes]
  int64_t query_bytes;
};

// The entries of one token that may be among its largest, in rising order. Scores are kept as
// integers of the same order.
struct Candidates {
  int32_t* keys;
  int32_t* entries;
  int64_t count;
  int32_t beaten;  // a later entry with this key or less is not among the largest
};
inline constexpr int32_t kNothingBeaten = INT32_MIN;

// Scores a block of entries for consecutive tokens of one request, and adds those that may be
// among the largest to each token's candidates. A token sees only entries that are complete.
struct ScoreEntries {
  RowLayout layout;
  const void* const* rows;  // [count] rows of the pool
  int64_t count;            // 1 to kBlockEntries
  int64_t first_entry;
  const uint8_t* queries;  // [tokens, heads, query_bytes], prepared
  int64_t query_bytes;
  const float* weights;  // [tokens, heads]
  int64_t first_position;
  int64_t tokens;
  int64_t heads;
  uint8_t* decoded;        // [16, layout.width] floats, scratch
  uint8_t* keys;           // [kBlockEntries, layout.width + 1] floats, scratch
  Candidates* candidates;  // [tokens]
  int64_t capacity;        // of each, at least top_k + kBlockEntries
  int64_t top_k;
};

struct IndexerKernels {
  void (*prepare)(const PrepareQueries& task);
  void (*score)(const ScoreEntries& task);
  // Keeps the top_k largest; keys has room for 8 more than there are.
  void (*keep)(Candidates& candidates, int64_t top_k);
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
