#include "backends/cpu/ops/hc_pre/ref.h"

#include <algorithm>
#include <cmath>

namespace cachalot::cpu {
namespace {

double Sigmoid(double value) { return 1 / (1 + std::exp(-value)); }

// c[i] <- c[i] / (sum of c[i] + eps), over `count` values `stride` apart.
void Normalise(double* c, int64_t count, int64_t stride, double eps) {
  double sum = eps;
  for (int64_t i = 0; i < count; ++i) {
    sum += c[i * stride];
  }
  for (int64_t i = 0; i < count; ++i) {
    c[i * stride] /= sum;
  }
}

// Logits [n, n] to a matrix whose columns, and nearly its rows, sum to one.
void Sinkhorn(std::span<double> comb, int64_t n, int64_t iters, double eps) {
  for (int64_t i = 0; i < n; ++i) {
    double* row = comb.data() + i * n;
    const double top = *std::max_element(row, row + n);
    std::transform(row, row + n, row, [top](double value) { return std::exp(value - top); });
    Normalise(row, n, 1, 0);
    std::transform(row, row + n, row, [eps](double value) { return value + eps; });
  }
  for (int64_t iter = 0; iter < iters; ++iter) {
    for (int64_t i = 0; iter > 0 && i < n; ++i) {
      Normalise(comb.data() + i * n, n, 1, eps);
    }
    for (int64_t j = 0; j < n; ++j) {
      Normalise(comb.data() + j, n, n, eps);
    }
  }
}

}  // namespace

std::vector<double> HcMixes(std::span<const float> v, const Tensor& fn, double rms_eps) {
  double squares = 0;
  for (const float value : v) {
    squares += static_cast<double>(value) * value;
  }
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(v.size()) + rms_eps);
  std::vector<double> mixes;
  for (int64_t row = 0; row < fn.shape[0]; ++row) {
    const float* weights = fn.As<float>() + row * fn.shape[1];
    double sum = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      sum += static_cast<double>(weights[i]) * v[i];
    }
    mixes.push_back(sum * inverse);
  }
  return mixes;
}

void HcCollapse(std::span<const double> weights, const float* x, std::span<float> y) {
  for (size_t c = 0; c < y.size(); ++c) {
    double sum = 0;
    for (size_t s = 0; s < weights.size(); ++s) {
      sum += weights[s] * x[s * y.size() + c];
    }
    y[c] = static_cast<float>(sum);
  }
}

void RefHcPre(const HcPreParams& params, Context& context) {
  const int64_t hc = params.x.shape[1];
  const auto width = static_cast<size_t>(params.x.shape[2]);
  const float* base = params.base.As<float>();
  const float* scale = params.scale.As<float>();
  context.pool().ParallelFor(params.x.shape[0], [&](int64_t begin, int64_t end) {
    std::vector<double> pre(static_cast<size_t>(hc));
    std::vector<double> comb(static_cast<size_t>(hc * hc));
    for (int64_t t = begin; t < end; ++t) {
      const auto size = static_cast<size_t>(hc) * width;
      const float* x = params.x.As<float>() + static_cast<size_t>(t) * size;
      const std::vector<double> mixes = HcMixes({x, size}, params.fn, params.rms_eps);
      // Logit i of the three kinds: 0 pre, 1 post, 2 comb.
      const auto logit = [&](int64_t i, int kind) {
        return mixes[static_cast<size_t>(i)] * scale[kind] + base[i];
      };
      for (int64_t i = 0; i < hc; ++i) {
        pre[static_cast<size_t>(i)] = Sigmoid(logit(i, 0)) + params.hc_eps;
        params.post.As<float>()[t * hc + i] = static_cast<float>(2 * Sigmoid(logit(hc + i, 1)));
      }
      for (int64_t i = 0; i < hc * hc; ++i) {
        comb[static_cast<size_t>(i)] = logit(2 * hc + i, 2);
      }
      Sinkhorn(comb, hc, params.sinkhorn_iters, params.hc_eps);
      std::transform(comb.begin(), comb.end(), params.comb.As<float>() + t * hc * hc,
                     [](double value) { return static_cast<float>(value); });
      HcCollapse(pre, x, {params.y.As<float>() + static_cast<size_t>(t) * width, width});
    }
  });
}

}  // namespace cachalot::cpu
