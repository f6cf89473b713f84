#include "backends/cpu/ops/experts/ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/ops/matrix_rows.h"

namespace cachalot::cpu {
namespace {

// One token's way through an expert: its output goes to `place`, in units of hidden sizes.
struct Visit {
  int64_t token;
  int64_t place;
  double weight;
};

// weight * silu(g) * u, the gate bounded above and the other on both sides.
double Activate(double g, double u, double limit, double weight) {
  if (limit > 0) {
    g = std::min(g, limit);
    u = std::clamp(u, -limit, limit);
  }
  return weight * (g / (1 + std::exp(-g))) * u;
}

// Each weight row is read once for all visits.
void RunExpert(const ExpertsParams& params, const ExpertWeights& expert,
               const std::vector<Visit>& visits, std::vector<double>& outputs, Context& context) {
  const int64_t hidden = params.x.shape[1];
  const int64_t inner = expert.w1.rows;
  if (visits.empty()) {
    return;
  }
  std::vector<double> activated(visits.size() * static_cast<size_t>(inner));
  context.pool().ParallelFor(inner, [&](int64_t begin, int64_t end) {
    std::vector<double> w1(static_cast<size_t>(hidden));
    std::vector<double> w3(static_cast<size_t>(hidden));
    for (int64_t row = begin; row < end; ++row) {
      DecodeMatrixRow(expert.w1, row, w1);
      DecodeMatrixRow(expert.w3, row, w3);
      for (size_t i = 0; i < visits.size(); ++i) {
        const float* x = params.x.As<float>() + visits[i].token * hidden;
        activated[i * static_cast<size_t>(inner) + static_cast<size_t>(row)] =
            Activate(Dot(w1, x), Dot(w3, x), params.limit, visits[i].weight);
      }
    }
  });
  context.pool().ParallelFor(hidden, [&](int64_t begin, int64_t end) {
    std::vector<double> w2(static_cast<size_t>(inner));
    for (int64_t row = begin; row < end; ++row) {
      DecodeMatrixRow(expert.w2, row, w2);
      for (size_t i = 0; i < visits.size(); ++i) {
        outputs[static_cast<size_t>(visits[i].place * hidden + row)] =
            Dot(w2, activated.data() + i * static_cast<size_t>(inner));
      }
    }
  });
}

}  // namespace

void RefExperts(const ExpertsParams& params, Context& context) {
  const int64_t tokens = params.x.shape[0];
  const int64_t hidden = params.x.shape[1];
  const int64_t slots = params.experts.shape[1];
  // A token's places: its slots in order, then the shared expert.
  std::vector<std::vector<Visit>> routed(params.routed.size());
  std::vector<Visit> shared;
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t place = t * (slots + 1);
    for (int64_t slot = 0; slot < slots; ++slot) {
      const auto e = static_cast<size_t>(params.experts.As<int32_t>()[t * slots + slot]);
      routed[e].push_back({t, place + slot, params.weights.As<float>()[t * slots + slot]});
    }
    shared.push_back({t, place + slots, 1.0});
  }
  std::vector<double> outputs(static_cast<size_t>(tokens * (slots + 1) * hidden));
  for (size_t e = 0; e < routed.size(); ++e) {
    RunExpert(params, params.routed[e], routed[e], outputs, context);
  }
  RunExpert(params, *params.shared, shared, outputs, context);

  context.pool().ParallelFor(tokens * hidden, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / hidden * (slots + 1) * hidden + i % hidden;
      double sum = 0;
      for (int64_t place = 0; place <= slots; ++place) {
        sum += outputs[static_cast<size_t>(first + place * hidden)];
      }
      params.y.As<float>()[i] = static_cast<float>(sum);
    }
  });
}

}  // namespace cachalot::cpu
