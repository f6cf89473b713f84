#include "backends/cpu/ops/indexer/ref.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/cpu/ops/compressor/ref.h"
#include "backends/cpu/ops/matrix_rows.h"
#include "backends/cpu/ops/token_place.h"

namespace cachalot::cpu {
namespace {

// One head's query as its keys are: turned by the Hadamard matrix, then rounded.
std::vector<double> PrepareQuery(std::span<const float> q, RowRounding rounding) {
  std::vector<double> turned(q.begin(), q.end());
  HadamardRow(turned);
  std::vector<float> values(turned.begin(), turned.end());
  const RowLayout layout{RowFormat::kF32, rounding, static_cast<int64_t>(q.size()), 0};
  std::vector<uint8_t> row(static_cast<size_t>(layout.bytes()));
  EncodeRow(layout, values, row.data());
  DecodeRow(layout, row.data(), values);
  return {values.begin(), values.end()};
}

std::vector<double> Scores(const IndexerParams& params, int64_t t, const int32_t* pages,
                           int64_t entries) {
  const int64_t heads = params.q.shape[1];
  const auto width = static_cast<size_t>(params.q.shape[2]);
  std::vector<std::vector<double>> queries;
  for (int64_t head = 0; head < heads; ++head) {
    const float* q = params.q.As<float>() + static_cast<size_t>(t * heads + head) * width;
    queries.push_back(PrepareQuery({q, width}, params.keys.layout.rounding));
  }
  const double scale =
      1 / std::sqrt(static_cast<double>(width)) / std::sqrt(static_cast<double>(heads));
  const float* weights = params.weights.As<float>() + t * heads;
  std::vector<float> key(width);
  std::vector<double> scores;
  for (int64_t e = 0; e < entries; ++e) {
    const int64_t row =
        pages[e / params.page_entries] * params.page_entries + e % params.page_entries;
    DecodeRow(params.keys.layout, params.keys.row(row), key);
    double score = 0;
    for (int64_t head = 0; head < heads; ++head) {
      const double dot = Dot(queries[static_cast<size_t>(head)], key.data());
      score += std::max(dot, 0.0) * weights[head] * scale;
    }
    scores.push_back(std::isnan(score) ? -std::numeric_limits<double>::infinity() : score);
  }
  return scores;
}

void Select(const IndexerParams& params, int64_t t, const int32_t* pages, int64_t entries) {
  std::vector<int32_t> order(static_cast<size_t>(entries));
  std::iota(order.begin(), order.end(), 0);
  const int64_t kept = std::min(entries, params.top_k);
  if (kept < entries) {
    const std::vector<double> scores = Scores(params, t, pages, entries);
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](int32_t a, int32_t b) {
      const double left = scores[static_cast<size_t>(a)];
      const double right = scores[static_cast<size_t>(b)];
      return left != right ? left > right : a < b;
    });
    std::sort(order.begin(), order.begin() + kept);
  }
  int32_t* selected = params.selected.As<int32_t>() + t * params.top_k;
  std::copy(order.begin(), order.begin() + kept, selected);
  std::fill(selected + kept, selected + params.top_k, -1);
}

}  // namespace

void RefIndexer(const IndexerParams& params, Context& context) {
  for (int64_t b = 0; b < params.requests.start_pos.shape[0]; ++b) {
    const int64_t first = params.requests.query_starts.As<int32_t>()[b];
    const int64_t tokens = params.requests.query_starts.As<int32_t>()[b + 1] - first;
    const int64_t start = params.requests.start_pos.As<int32_t>()[b];
    const int32_t* pages = params.pages.As<int32_t>() + b * params.pages.shape[1];
    context.pool().ParallelFor(tokens, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Select(params, first + i, pages, (start + i + 1) / 4);
      }
    });
  }
  FillBeyondRequests(params.requests, params.selected, -1);
}

}  // namespace cachalot::cpu
