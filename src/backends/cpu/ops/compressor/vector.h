#pragma once

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {

// What one token gives to an entry: as many values and scores as the entry is wide.
struct PooledToken {
  const float* kv;
  const float* score;
  const float* ape;  // to be added to the score; null: it is in there
};

struct CompressEntry {
  const PooledToken* tokens;
  int64_t num_tokens;
  const float* norm;  // [layout.width]
  double eps;
  const float* cosines;  // [rope_dim], as RotateTask has them
  const float* sines;
  int64_t rope_dim;
  bool hadamard;
  float* values;  // [layout.width], scratch
  RowLayout layout;
  void* row;  // of the pool
};

namespace avx2 {
void Compress(const CompressEntry& entry);
}
namespace avx512 {
void Compress(const CompressEntry& entry);
}

const char* VectorCompressorSupports(const CompressorParams& params);
void Avx2Compressor(const CompressorParams& params, Context& context);
void Avx512Compressor(const CompressorParams& params, Context& context);

}  // namespace cachalot::cpu
