#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// Keys are taken in blocks of this many, counted from a token's first; window keys and compressed
// entries do not share a block. A token's blocks depend on the token alone.
inline constexpr int64_t kBlockKeys = 64;

// A block of keys decoded twice over: for q . key with keys side by side, for p * key with values
// side by side.
struct DecodedKeys {
  float* rows;     // [kBlockKeys, stride]
  int64_t stride;  // at least the width
  float* columns;  // [kBlockKeys / 16, width, 16]
};

struct DecodeKeys {
  RowLayout layout;
  const void* const* rows;  // [count] rows of a pool
  int64_t count;            // 1 to kBlockKeys
  DecodedKeys out;
};

// One block of keys for some heads of a token. o, top and total are the running state: the sum of
// p * key, the largest score and the sum of p, with p = exp(score - top).
struct AttendBlock {
  const float* q;  // [heads, width]
  int64_t heads;
  int64_t width;
  float scale;
  DecodedKeys keys;
  int64_t count;
  float* scores;   // [heads, kBlockKeys], scratch
  float* rescale;  // [heads], scratch
  float* o;        // [heads, width]
  float* top;      // [heads]
  float* total;    // [heads]
};

// Before the first block the sink is the only thing seen: a score without a value.
struct AttentionHeads {
  const float* sink;  // [heads]
  int64_t heads;
  int64_t width;
  float* o;
  float* top;
  float* total;
};

struct AttentionKernels {
  void (*decode)(const DecodeKeys& task);
  void (*begin)(const AttentionHeads& heads);
  void (*attend)(const AttendBlock& block);
  void (*finish)(const AttentionHeads& heads);  // o /= total
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
