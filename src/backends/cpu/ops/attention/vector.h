#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// Keys are taken in blocks of this many, counted from a token's first; window keys and compressed
// entries do not share a block. A token's blocks depend on the token alone.
inline constexpr int64_t kBlockKeys = 64;
// Scores are computed for this many keys at a time: as many decoded rows, less one, may be read
// after the last of a block, whatever is in them.
inline constexpr int64_t kScoreKeys = 4;

struct DecodeKeys {
  RowLayout layout;
  const void* const* rows;  // [count] rows of a pool
  int64_t count;
  int64_t row_bytes;  // of a stored row
  float* out;         // [count, stride]
  int64_t stride;
};

// Some heads of a token and their running state: the sum of p * key, the largest score and the sum
// of p, with p = exp(score - top). Before the first block the sink is the only thing seen: a score
// without a value.
struct AttentionHeads {
  const float* q;     // [heads, width]
  const float* sink;  // [heads]
  int64_t heads;
  int64_t width;
  float* sums;     // [heads, stride]
  int64_t stride;  // at least the width; of keys as well
  float* top;      // [heads]
  float* total;    // [heads]
  float* scores;   // [heads, kBlockKeys], scratch
  float* rescale;  // [heads], scratch
  float* o;        // [heads, width]
};

// One block of decoded keys.
struct KeyBlock {
  const float* keys;  // [count, stride]
  int64_t count;      // 1 to kBlockKeys
  float scale;        // of q . key
};

struct AttentionKernels {
  void (*decode)(const DecodeKeys& task);
  void (*begin)(const AttentionHeads& heads);
  void (*attend)(const AttentionHeads& heads, const KeyBlock& block);
  void (*finish)(const AttentionHeads& heads);  // o = sums / total
};

namespace avx2 {
AttentionKernels Attention();
}
namespace avx512 {
AttentionKernels Attention();
}

const char* VectorAttentionSupports(const AttentionParams& params);
void Avx2Attention(const AttentionParams& params, Context& context);
void Avx512Attention(const AttentionParams& params, Context& context);

}  // namespace cachalot::cpu
