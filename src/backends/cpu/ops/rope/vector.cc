#include "backends/cpu/ops/rope/vector.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/ops/share_values.h"

namespace cachalot::cpu {
namespace {

void Run(const RopeParams& params, Context& context, void (*rotate)(const RotateTask&)) {
  const int64_t tokens = params.x.shape[0];
  const int64_t rows = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  const int64_t dim = params.table.dim;
  float* angles = context.scratch().Reserve<float>(tokens * 2 * dim);
  context.pool().ParallelFor(tokens, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      FillRotation(params.table, params.positions.As<int32_t>()[t], params.inverse,
                   angles + t * 2 * dim, angles + t * 2 * dim + dim);
    }
  });
  // Shared out by rows: a single token has many heads.
  ShareValues(context.pool(), tokens * rows, dim, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t t = row / rows;
      const int64_t stop = std::min(end, (t + 1) * rows);
      rotate({params.x.As<float>() + (row + 1) * width - dim, stop - row, width, dim,
              angles + t * 2 * dim, angles + t * 2 * dim + dim});
      row = stop;
    }
  });
}

}  // namespace

void FillRotation(const RopeTable& table, int64_t position, bool inverse, float* cosines,
                  float* sines) {
  for (int64_t i = 0; i < table.dim; i += 2) {
    const double angle =
        static_cast<double>(position) * table.frequencies[static_cast<size_t>(i / 2)];
    const auto cosine = static_cast<float>(std::cos(angle));
    const auto sine = static_cast<float>(inverse ? -std::sin(angle) : std::sin(angle));
    cosines[i] = cosine;
    cosines[i + 1] = cosine;
    sines[i] = -sine;
    sines[i + 1] = sine;
  }
}

void Avx2Rope(const RopeParams& params, Context& context) { Run(params, context, avx2::Rotate); }
void Avx512Rope(const RopeParams& params, Context& context) {
  Run(params, context, avx512::Rotate);
}

}  // namespace cachalot::cpu
