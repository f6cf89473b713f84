#include "backends/cpu/ops/hc_pre/vector.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {
namespace {

double Sigmoid(double value) { return 1 / (1 + std::exp(-value)); }

// Divides `count` values, `stride` apart, by their sum + eps.
void DivideBySum(double* values, int64_t count, int64_t stride, double eps) {
  double sum = eps;
  for (int64_t i = 0; i < count; ++i) {
    sum += values[i * stride];
  }
  for (int64_t i = 0; i < count; ++i) {
    values[i * stride] /= sum;
  }
}

// Logits [n, n] become the map; see HcPreParams.
void Sinkhorn(double* comb, int64_t n, int64_t iters, double eps) {
  for (double* row = comb; row < comb + n * n; row += n) {
    const double top = *std::max_element(row, row + n);
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      row[j] = std::exp(row[j] - top);
      sum += row[j];
    }
    for (int64_t j = 0; j < n; ++j) {
      row[j] = row[j] / sum + eps;
    }
  }
  for (int64_t iter = 0; iter < iters; ++iter) {
    for (int64_t i = 0; iter > 0 && i < n; ++i) {
      DivideBySum(comb + i * n, n, 1, eps);
    }
    for (int64_t j = 0; j < n; ++j) {
      DivideBySum(comb + j, n, n, eps);
    }
  }
}

void RunHcPre(const HcPreParams& params, Context& context, const HcKernels& kernels) {
  const int64_t tokens = params.x.shape[0];
  const int64_t streams = params.x.shape[1];
  const int64_t width = params.x.shape[2];
  const int64_t num_mixes = params.fn.shape[0];
  float* mixes = context.scratch().Reserve<float>(tokens * num_mixes);
  VectorHcMixes(params.x, params.fn, params.rms_eps, kernels, context, mixes);

  const float* base = params.base.As<float>();
  const float* scale = params.scale.As<float>();
  context.pool().ParallelFor(tokens, [&](int64_t begin, int64_t end) {
    std::vector<float> pre(static_cast<size_t>(streams));
    std::vector<double> comb(static_cast<size_t>(streams * streams));
    for (int64_t t = begin; t < end; ++t) {
      const float* mix = mixes + t * num_mixes;
      const auto logit = [&](int64_t i, int kind) {
        return static_cast<double>(mix[i]) * scale[kind] + base[i];
      };
      float* post = params.post.As<float>() + t * streams;
      for (int64_t s = 0; s < streams; ++s) {
        pre[static_cast<size_t>(s)] = static_cast<float>(Sigmoid(logit(s, 0)) + params.hc_eps);
        post[s] = static_cast<float>(2 * Sigmoid(logit(streams + s, 1)));
      }
      for (int64_t i = 0; i < streams * streams; ++i) {
        comb[static_cast<size_t>(i)] = logit(2 * streams + i, 2);
      }
      Sinkhorn(comb.data(), streams, params.sinkhorn_iters, params.hc_eps);
      std::transform(comb.begin(), comb.end(), params.comb.As<float>() + t * streams * streams,
                     [](double value) { return static_cast<float>(value); });
      kernels.collapse({.x = params.x.As<float>() + t * streams * width,
                        .weights = pre.data(),
                        .streams = streams,
                        .width = width,
                        .y = params.y.As<float>() + t * width});
    }
  });
}

}  // namespace

HcKernels Avx2HcKernels() { return {avx2::kLinearKernels, avx2::SumOfSquares, avx2::Collapse}; }

HcKernels Avx512HcKernels() {
  return {avx512::kLinearKernels, avx512::SumOfSquares, avx512::Collapse};
}

void VectorHcMixes(const Tensor& x, const Tensor& fn, double rms_eps, const HcKernels& kernels,
                   Context& context, float* mixes) {
  const int64_t tokens = x.shape[0];
  const int64_t rows = fn.shape[0];
  const int64_t cols = fn.shape[1];
  const Matrix w = {MatrixFormat::kF32, rows, cols, fn, {}};
  RunProduct({.w = w, .x = x.As<float>(), .tokens = tokens, .y = mixes}, context, kernels.linear);
  ThreadPool& pool = context.pool();
  pool.ParallelFor(tokens, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const double squares = kernels.sum_of_squares(x.As<float>() + t * cols, cols);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(cols) + rms_eps);
      for (float* mix = mixes + t * rows; mix < mixes + (t + 1) * rows; ++mix) {
        *mix = static_cast<float>(*mix * inverse);
      }
    }
  });
}

void Avx2HcPre(const HcPreParams& params, Context& context) {
  RunHcPre(params, context, Avx2HcKernels());
}

void Avx512HcPre(const HcPreParams& params, Context& context) {
  RunHcPre(params, context, Avx512HcKernels());
}

}  // namespace cachalot::cpu
