// HcPost on vectors.
#pragma once

#include <cstdint>

namespace cachalot {
struct HcPostParams;
}

namespace cachalot::cpu {

class Context;

// One token: x[j][c] = post[j] * y[c] + sum over i, in order, of comb[i][j] * x[i][c].
struct MixStreamsTask {
  const float* y = nullptr;     // [width]
  const float* post = nullptr;  // [streams]
  const float* comb = nullptr;  // [streams, streams]
  float* x = nullptr;           // [streams, width], in place
  int64_t streams = 0;
  int64_t width = 0;
  int64_t begin = 0;  // columns [begin, end)
  int64_t end = 0;
};

constexpr int64_t kMaxStreams = 8;

namespace avx2 {
void MixStreams(const MixStreamsTask& task);
}
namespace avx512 {
void MixStreams(const MixStreamsTask& task);
}

const char* SupportsHcPostVector(const HcPostParams& params);
void Avx2HcPost(const HcPostParams& params, Context& context);
void Avx512HcPost(const HcPostParams& params, Context& context);

}  // namespace cachalot::cpu
