#include "backends/cpu/ops/compressor/ref.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/ops/rope/ref.h"

namespace cachalot::cpu {
namespace {

// One request's view of the state. What belongs to page 0 is there for the length of the step.
class State {
 public:
  State(const CompressorParams& params, int64_t request)
      : params_(params),
        pages_(params.state_pages.As<int32_t>() + request * params.state_pages.shape[1]),
        nowhere_(static_cast<size_t>(params.state_rows * params.state.shape[1])) {}

  float* Row(int64_t position) {
    const int64_t page = pages_[position / params_.state_span];
    float* rows =
        page == 0 ? nowhere_.data()
                  : params_.state.As<float>() + page * params_.state_rows * params_.state.shape[1];
    return rows + position % params_.state_rows * params_.state.shape[1];
  }

 private:
  const CompressorParams& params_;
  const int32_t* pages_;
  std::vector<float> nowhere_;
};

// Where one token's part of an entry lies: `width` values and as many scores.
struct Slot {
  const float* kv;
  const float* score;
};

std::vector<Slot> SlotsOf(const CompressorParams& params, State& state, int64_t entry) {
  const int64_t width = params.pool.layout.width;
  const int64_t row_width = params.kv.shape[1];
  const bool overlaps = row_width == 2 * width;
  std::vector<Slot> slots;
  const auto add_group = [&](int64_t group, int64_t channel) {
    for (int64_t p = group * params.ratio; p < (group + 1) * params.ratio; ++p) {
      const float* row = state.Row(p);
      slots.push_back({row + channel, row + row_width + channel});
    }
  };
  if (overlaps && entry > 0) {
    add_group(entry - 1, 0);
  }
  add_group(entry, overlaps ? width : 0);
  return slots;
}

// Sum of kv * softmax(score), channel by channel.
void Pool(const std::vector<Slot>& slots, std::span<double> pooled) {
  for (size_t c = 0; c < pooled.size(); ++c) {
    double top = -std::numeric_limits<double>::infinity();
    for (const Slot& slot : slots) {
      top = std::max<double>(top, slot.score[c]);
    }
    double sum = 0;
    double weights = 0;
    for (const Slot& slot : slots) {
      const double weight = std::exp(slot.score[c] - top);
      sum += weight * slot.kv[c];
      weights += weight;
    }
    pooled[c] = sum / weights;
  }
}

void Normalise(std::span<double> row, const float* norm, double eps) {
  double squares = 0;
  for (const double value : row) {
    squares += value * value;
  }
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(row.size()) + eps);
  for (size_t c = 0; c < row.size(); ++c) {
    row[c] *= norm[c] * inverse;
  }
}

void MakeEntry(const CompressorParams& params, State& state, int64_t entry, void* kept) {
  std::vector<double> row(static_cast<size_t>(params.pool.layout.width));
  Pool(SlotsOf(params, state, entry), row);
  Normalise(row, params.norm.As<float>(), params.rms_eps);
  RotateRow(row, params.rope, entry * params.ratio, false);
  if (params.hadamard) {
    HadamardRow(row);
  }
  const std::vector<float> values(row.begin(), row.end());
  EncodeRow(params.pool.layout, values, kept);
}

// Tokens one by one, so that the state holds what an entry needs when its last token arrives.
void RunRequest(const CompressorParams& params, int64_t request, int64_t first_slot) {
  const int64_t begin = params.requests.query_starts.As<int32_t>()[request];
  const int64_t end = params.requests.query_starts.As<int32_t>()[request + 1];
  const int64_t row_width = params.kv.shape[1];
  State state(params, request);
  const int32_t* slot = params.entry_slots.As<int32_t>() + first_slot;
  int64_t position = params.requests.start_pos.As<int32_t>()[request];
  for (int64_t t = begin; t < end; ++t, ++position) {
    const float* kv = params.kv.As<float>() + t * row_width;
    const float* score = params.score.As<float>() + t * row_width;
    const float* ape = params.ape.As<float>() + position % params.ratio * row_width;
    float* row = state.Row(position);
    for (int64_t c = 0; c < row_width; ++c) {
      row[c] = kv[c];
      row[row_width + c] = score[c] + ape[c];
    }
    if ((position + 1) % params.ratio == 0) {
      MakeEntry(params, state, position / params.ratio, params.pool.row(*slot++));
    }
  }
}

}  // namespace

void HadamardRow(std::span<double> row) {
  const size_t width = row.size();
  for (size_t half = 1; half < width; half *= 2) {
    for (size_t i = 0; i < width; ++i) {
      if ((i & half) == 0) {
        const double a = row[i];
        const double b = row[i + half];
        row[i] = a + b;
        row[i + half] = a - b;
      }
    }
  }
  for (double& value : row) {
    value /= std::sqrt(static_cast<double>(width));
  }
}

void RefCompressor(const CompressorParams& params, Context& context) {
  const int64_t requests = params.requests.start_pos.shape[0];
  std::vector<int64_t> first_slots;
  int64_t slots = 0;
  for (int64_t b = 0; b < requests; ++b) {
    first_slots.push_back(slots);
    const int64_t start = params.requests.start_pos.As<int32_t>()[b];
    const int32_t* tokens = params.requests.query_starts.As<int32_t>() + b;
    slots += (start + tokens[1] - tokens[0]) / params.ratio - start / params.ratio;
  }
  context.pool().ParallelFor(requests, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      RunRequest(params, b, first_slots[static_cast<size_t>(b)]);
    }
  });
}

}  // namespace cachalot::cpu
