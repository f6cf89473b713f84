#include "backends/cpu/ops/attention/ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/ops/matrix_rows.h"
#include "backends/cpu/ops/token_place.h"

namespace cachalot::cpu {
namespace {

// The rows that a token attends to, in their order, one after the other.
class Keys {
 public:
  explicit Keys(int64_t width) : decoded_(static_cast<size_t>(width)) {}

  void Add(const RowPool& pool, const int32_t* pages, int64_t page_rows, int64_t index) {
    const int64_t row = pages[index / page_rows] * page_rows + index % page_rows;
    DecodeRow(pool.layout, pool.row(row), decoded_);
    values_.insert(values_.end(), decoded_.begin(), decoded_.end());
  }

  size_t count() const { return values_.size() / decoded_.size(); }
  std::span<const double> key(size_t i) const {
    return std::span(values_).subspan(i * decoded_.size(), decoded_.size());
  }

 private:
  std::vector<float> decoded_;
  std::vector<double> values_;
};

Keys KeysOf(const AttentionParams& params, int64_t request, int64_t t, int64_t position) {
  Keys keys(params.q.shape[2]);
  const int32_t* pages = params.window_pages.As<int32_t>() + request * params.window_pages.shape[1];
  for (int64_t p = params.key_begin.As<int32_t>()[t]; p < params.key_end.As<int32_t>()[t]; ++p) {
    keys.Add(params.window, pages, params.window_page_rows, p);
  }
  if (params.ratio == 0) {
    return keys;
  }
  const int32_t* entry_pages =
      params.entry_pages.As<int32_t>() + request * params.entry_pages.shape[1];
  const auto add_entry = [&](int64_t e) {
    keys.Add(params.entries, entry_pages, params.page_entries, e);
  };
  if (params.selected.empty()) {
    for (int64_t e = 0; e < (position + 1) / params.ratio; ++e) {
      add_entry(e);
    }
    return keys;
  }
  const int64_t most = params.selected.shape[1];
  const int32_t* selected = params.selected.As<int32_t>() + t * most;
  for (int64_t i = 0; i < most && selected[i] >= 0; ++i) {
    add_entry(selected[i]);
  }
  return keys;
}

// The sink takes part in the maximum, so that nothing overflows where it is the largest.
void Attend(const float* q, const Keys& keys, double sink, std::span<float> o) {
  const double scale = 1 / std::sqrt(static_cast<double>(o.size()));
  std::vector<double> weights;
  double top = sink;
  for (size_t i = 0; i < keys.count(); ++i) {
    weights.push_back(Dot(keys.key(i), q) * scale);
    top = std::max(top, weights.back());
  }
  std::vector<double> sums(o.size());
  double denominator = std::exp(sink - top);
  for (size_t i = 0; i < keys.count(); ++i) {
    const double weight = std::exp(weights[i] - top);
    denominator += weight;
    for (size_t c = 0; c < o.size(); ++c) {
      sums[c] += weight * keys.key(i)[c];
    }
  }
  std::transform(sums.begin(), sums.end(), o.begin(),
                 [=](double sum) { return static_cast<float>(sum / denominator); });
}

}  // namespace

void RefAttention(const AttentionParams& params, Context& context) {
  const int64_t heads = params.q.shape[1];
  const int64_t width = params.q.shape[2];
  for (int64_t b = 0; b < params.requests.start_pos.shape[0]; ++b) {
    const int64_t first = params.requests.query_starts.As<int32_t>()[b];
    const int64_t last = params.requests.query_starts.As<int32_t>()[b + 1];
    const int64_t start = params.requests.start_pos.As<int32_t>()[b];
    for (int64_t t = first; t < last; ++t) {
      const Keys keys = KeysOf(params, b, t, start + t - first);
      context.pool().ParallelFor(heads, [&](int64_t begin, int64_t end) {
        for (int64_t head = begin; head < end; ++head) {
          const int64_t at = (t * heads + head) * width;
          Attend(params.q.As<float>() + at, keys, params.sink.As<float>()[head],
                 {params.o.As<float>() + at, static_cast<size_t>(width)});
        }
      });
    }
  }
  FillBeyondRequests(params.requests, params.o, 0.0F);
}

}  // namespace cachalot::cpu
