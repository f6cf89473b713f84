#include "backends/cpu/ops/rope/ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cachalot::cpu {

void RotateRow(std::span<double> row, const RopeTable& table, int64_t position, bool inverse) {
  double* x = row.data() + row.size() - table.dim;
  for (int64_t i = 0; i < table.dim; i += 2) {
    const double angle =
        static_cast<double>(position) * table.frequencies[static_cast<size_t>(i / 2)];
    const double cosine = std::cos(angle);
    const double sine = inverse ? -std::sin(angle) : std::sin(angle);
    const double even = x[i];
    const double odd = x[i + 1];
    x[i] = even * cosine - odd * sine;
    x[i + 1] = even * sine + odd * cosine;
  }
}

void RefRope(const RopeParams& params, Context& context) {
  const int64_t rows_per_token = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  const int64_t dim = params.table.dim;
  context.pool().ParallelFor(params.x.shape[0] * rows_per_token, [&](int64_t begin, int64_t end) {
    std::vector<double> turned(static_cast<size_t>(dim));
    for (int64_t row = begin; row < end; ++row) {
      float* x = params.x.As<float>() + (row + 1) * width - dim;
      std::copy(x, x + dim, turned.begin());
      RotateRow(turned, params.table, params.positions.As<int32_t>()[row / rows_per_token],
                params.inverse);
      std::transform(turned.begin(), turned.end(), x,
                     [](double value) { return static_cast<float>(value); });
    }
  });
}

}  // namespace cachalot::cpu
