#include "backends/cpu/ops/hc_post/vector.h"

#include <algorithm>

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {
namespace {

// Threads share out pieces of tokens, so that one token keeps them all busy.
constexpr int64_t kPieceColumns = 512;

void RunHcPost(const HcPostParams& params, Context& context,
               void (*mix_streams)(const MixStreamsTask& task)) {
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  const int64_t pieces = (width + kPieceColumns - 1) / kPieceColumns;
  context.pool().ParallelFor(params.x.shape[0] * pieces, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t t = piece / pieces;
      const int64_t column = piece % pieces * kPieceColumns;
      mix_streams({.y = params.y.As<float>() + t * width,
                   .post = params.post.As<float>() + t * streams,
                   .comb = params.comb.As<float>() + t * streams * streams,
                   .x = params.x.As<float>() + t * streams * width,
                   .streams = streams,
                   .width = width,
                   .begin = column,
                   .end = std::min(column + kPieceColumns, width)});
    }
  });
}

}  // namespace

const char* SupportsHcPostVector(const HcPostParams& params) {
  return params.x.shape[1] > kMaxStreams ? "more than 8 streams" : nullptr;
}

void Avx2HcPost(const HcPostParams& params, Context& context) {
  RunHcPost(params, context, avx2::MixStreams);
}

void Avx512HcPost(const HcPostParams& params, Context& context) {
  RunHcPost(params, context, avx512::MixStreams);
}

}  // namespace cachalot::cpu
