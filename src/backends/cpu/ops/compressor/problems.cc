#include "backends/cpu/ops/compressor/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cachalot::cpu {
namespace {

using Requests = std::vector<std::pair<int32_t, int32_t>>;  // start_pos, tokens

constexpr int64_t kOwnRing = int64_t{1} << 30;  // the ring belongs to the request
constexpr int64_t kPaged = 0;                   // a row for each position, in pages of 128

struct Spec {
  int64_t ratio;
  RowLayout layout;
  bool hadamard;
  int64_t state_span;
  Requests requests;
  int64_t inert = 0;  // tokens of nobody after the others, and as many slots of no entry
};

int64_t ClosedEntries(const Requests& requests, int64_t ratio) {
  int64_t closed = 0;
  for (const auto& [start, tokens] : requests) {
    closed += (start + tokens) / ratio - start / ratio;
  }
  return closed;
}

// [rows, cols] of multiples of 1/8 up to `most` of them.
Tensor Eighths(int64_t rows, int64_t cols, int64_t most, ProblemData& data) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (float& value : values) {
    value = static_cast<float>(data.Between(-most, most)) / 8;
  }
  return data.Floats({rows, cols}, values);
}

Tensor ProductOf(const Tensor& x, const Matrix& w, ProblemData& data) {
  std::vector<float> y;
  for (int64_t t = 0; t < x.shape[0]; ++t) {
    for (int64_t row = 0; row < w.rows; ++row) {
      const float* left = x.As<float>() + t * w.cols;
      y.push_back(
          std::inner_product(left, left + w.cols, w.values.As<float>() + row * w.cols, 0.0F));
    }
  }
  return data.Floats({x.shape[0], w.rows}, y);
}

void Fill(const Spec& spec, Case<CompressorParams>& made) {
  ProblemData& data = made.data;
  CompressorParams& params = made.params;
  const int64_t width = spec.layout.width;
  const int64_t row_width = spec.ratio == 4 ? 2 * width : width;
  int64_t last = 1;
  for (const auto& [start, count] : spec.requests) {
    made.tokens += count;
    last = std::max<int64_t>(last, start + count);
  }
  made.tokens += spec.inert;
  SetProducts(params, made.tokens, row_width, data);
  params.ratio = spec.ratio;
  params.ape = data.Normal({spec.ratio, row_width});
  params.norm = data.Normal({width}, 0.3, 1);
  params.rms_eps = 1e-6;
  params.rope = data.Rope(std::min<int64_t>(width / 2, 64), 160000);
  params.hadamard = spec.hadamard;
  params.requests = data.Requests(spec.requests);
  const bool paged = spec.state_span == kPaged;
  params.state_rows = spec.ratio == 4 && !paged ? 8 : 128;
  params.state_span = paged ? params.state_rows : spec.state_span;
  const auto requests = static_cast<int64_t>(spec.requests.size());
  const int64_t pages = (last + params.state_span - 1) / params.state_span;
  params.state_pages = data.Pages(requests, pages, 1);
  if (paged) {
    // Pages before the group before the first token's are gone.
    for (int64_t b = 0; b < requests; ++b) {
      const int64_t group = spec.requests[static_cast<size_t>(b)].first / spec.ratio;
      const int64_t read = std::max<int64_t>(group - (spec.ratio == 4 ? 1 : 0), 0) * spec.ratio;
      std::fill_n(params.state_pages.As<int32_t>() + b * pages, read / params.state_span, 0);
    }
  }
  params.state = data.Normal({(requests * pages + 1) * params.state_rows, 2 * row_width});
  const int64_t closed = ClosedEntries(spec.requests, spec.ratio);
  auto slots = data.Shuffled(closed + 2);
  slots.resize(static_cast<size_t>(closed));
  slots.resize(static_cast<size_t>(closed + spec.inert), -1);  // not to be looked at
  params.entry_slots = data.Ints({closed + spec.inert}, slots);
  params.pool = data.Pool(spec.layout, closed + 2);
  made.outputs = {{"pool", {}, params.pool}, {"state", params.state, {}}};
}

}  // namespace

void SetProducts(CompressorParams& params, int64_t tokens, int64_t row_width, ProblemData& data) {
  constexpr int64_t kCols = 16;
  // Values of kv are about 1 in size, scores about 2.
  params.x = Eighths(tokens, kCols, 8, data);
  params.wkv = {MatrixFormat::kF32, row_width, kCols, Eighths(row_width, kCols, 6, data), {}};
  params.wgate = {MatrixFormat::kF32, row_width, kCols, Eighths(row_width, kCols, 12, data), {}};
  params.kv = ProductOf(params.x, params.wkv, data);
  params.score = ProductOf(params.x, params.wgate, data);
}

std::vector<Problem<CompressorParams>> CompressorProblems() {
  const RowLayout plain{RowFormat::kF32, RowRounding::kNone, 64, 0};
  const RowLayout wide{RowFormat::kF32, RowRounding::kFp8, 512, 64};
  const RowLayout bf16{RowFormat::kBf16, RowRounding::kNone, 512, 64};
  const RowLayout fp8_bf16{RowFormat::kBf16, RowRounding::kFp8, 512, 64};
  const RowLayout packed{RowFormat::kFp8Bf16, RowRounding::kFp8, 128, 64};
  const RowLayout fp4{RowFormat::kFp4, RowRounding::kFp4, 128, 0};
  const RowLayout fp4_f32{RowFormat::kF32, RowRounding::kFp4, 32, 0};
  const RowLayout int8{RowFormat::kInt8, RowRounding::kInt8, 128, 0};
  const Spec specs[] = {
      {4, plain, false, 128, {}},
      {4, plain, false, 128, {{0, 0}}},
      {4, plain, false, 128, {{0, 1}}},
      {4, plain, false, 128, {{3, 1}}},
      {4, plain, false, kOwnRing, {{0, 17}}},
      {4, plain, true, 128, {{5, 3}, {126, 5}, {7, 0}, {127, 1}}},
      {4, {RowFormat::kF32, RowRounding::kNone, 52, 0}, false, 128, {{2, 9}}},
      {4, wide, false, 128, {{120, 13}}},
      {4, bf16, false, 128, {{0, 5}, {250, 9}}},
      {4, fp8_bf16, false, kOwnRing, {{1, 8}}},
      {4, packed, false, 128, {{0, 140}, {1, 6}}},
      {4, fp4, true, 128, {{0, 70}, {130, 3}}},
      {4, fp4_f32, true, 128, {{4, 30}}},
      {4, int8, true, 128, {{9, 40}}},
      {4, packed, false, 128, {{11, 1}, {130, 1}, {255, 1}, {0, 0}, {0, 0}}, 3},
      {4, plain, false, kPaged, {{0, 300}, {250, 9}, {130, 1}, {255, 140}, {0, 0}}},
      {4, fp4, true, kPaged, {{100, 400}, {128, 256}}},
      {128, plain, false, kPaged, {{0, 300}, {127, 1}, {100, 300}, {383, 1}}, 2},
      {128, plain, false, kOwnRing, {{255, 1}, {4, 1}, {0, 0}}, 2},
      {128, plain, false, kOwnRing, {{0, 1}}},
      {128, plain, false, kOwnRing, {{0, 300}}},
      {128, plain, false, kOwnRing, {{127, 1}, {100, 30}, {383, 2}}},
      {128, wide, false, kOwnRing, {{120, 9}}},
      {128, packed, false, kOwnRing, {{250, 10}, {5, 3}}},
  };
  std::vector<Problem<CompressorParams>> problems;
  for (const Spec& spec : specs) {
    std::string name = fmt::format("ratio {}, {} of {}{}", spec.ratio, NameOf(spec.layout),
                                   spec.layout.width, spec.hadamard ? ", Hadamard" : "");
    name += spec.state_span == kPaged ? ", paged" : "";
    for (const auto& [start, tokens] : spec.requests) {
      name += fmt::format(", {}+{}", start, tokens);
    }
    if (spec.inert > 0) {
      name += fmt::format(", {} inert", spec.inert);
    }
    problems.push_back(
        {name, NameOf(spec.layout), [spec](Case<CompressorParams>& made) { Fill(spec, made); }});
  }
  return problems;
}

CompressorParams Slice(const CompressorParams& params, int64_t begin, int64_t end,
                       ProblemData& data) {
  // Entries close in the order of the tokens.
  const auto closed_before = [&](int64_t token) {
    int64_t closed = 0;
    for (int64_t b = 0; b < params.requests.start_pos.shape[0]; ++b) {
      const int32_t* starts = params.requests.query_starts.As<int32_t>() + b;
      const int64_t start = params.requests.start_pos.As<int32_t>()[b];
      const int64_t tokens = std::clamp<int64_t>(token, starts[0], starts[1]) - starts[0];
      closed += (start + tokens) / params.ratio - start / params.ratio;
    }
    return closed;
  };
  CompressorParams part = params;
  part.x = params.x.Rows(begin, end);
  part.kv = params.kv.Rows(begin, end);
  part.score = params.score.Rows(begin, end);
  part.requests = data.Slice(params.requests, begin, end);
  part.entry_slots = params.entry_slots.Rows(closed_before(begin), closed_before(end));
  return part;
}

}  // namespace cachalot::cpu
