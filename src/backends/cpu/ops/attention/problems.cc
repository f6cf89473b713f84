#include "backends/cpu/ops/attention/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace cachalot::cpu {
namespace {

struct Spec {
  int64_t heads;
  RowLayout layout;
  int64_t ratio;   // 0: the window alone
  int64_t chosen;  // of the entries for each token; 0: all
  int64_t window;
  int64_t page_rows;
  std::vector<std::pair<int32_t, int32_t>> requests;  // start_pos, tokens
  bool block = false;  // every token of a request sees all of the request's, as in a draft
  double spread = 1;   // of the queries
  int64_t inert = 0;   // tokens of nobody, after the others
};

void AddWindow(const Spec& spec, int64_t last, Case<AttentionParams>& made) {
  ProblemData& data = made.data;
  AttentionParams& params = made.params;
  std::vector<int32_t> begins;
  std::vector<int32_t> ends;
  for (const auto& [start, tokens] : spec.requests) {
    for (int32_t position = start; position < start + tokens; ++position) {
      begins.push_back(std::max<int32_t>(0, position + 1 - static_cast<int32_t>(spec.window)));
      ends.push_back(spec.block ? start + tokens : position + 1);
    }
  }
  begins.resize(static_cast<size_t>(made.tokens), -7);  // not to be looked at
  ends.resize(static_cast<size_t>(made.tokens), 1 << 20);
  params.key_begin = data.Ints({made.tokens}, begins);
  params.key_end = data.Ints({made.tokens}, ends);
  const auto requests = static_cast<int64_t>(spec.requests.size());
  const int64_t pages = (last + spec.page_rows - 1) / spec.page_rows;
  params.window_page_rows = spec.page_rows;
  params.window_pages = data.Pages(requests, pages);
  params.window = data.Pool(spec.layout, requests * pages * spec.page_rows);
}

void AddEntries(const Spec& spec, int64_t last, Case<AttentionParams>& made) {
  ProblemData& data = made.data;
  AttentionParams& params = made.params;
  const auto requests = static_cast<int64_t>(spec.requests.size());
  params.ratio = spec.ratio;
  params.page_entries = spec.ratio == 4 ? 32 : 1;
  const int64_t pages = last / spec.ratio / params.page_entries + 1;
  params.entry_pages = data.Pages(requests, pages);
  params.entries = data.Pool(spec.layout, requests * pages * params.page_entries);
  if (spec.chosen == 0) {
    return;
  }
  std::vector<int32_t> selected;
  for (const auto& [start, tokens] : spec.requests) {
    for (int32_t position = start; position < start + tokens; ++position) {
      auto row = data.Shuffled((position + 1) / spec.ratio);
      row.resize(std::min(row.size(), static_cast<size_t>(spec.chosen)));
      std::sort(row.begin(), row.end());
      row.resize(static_cast<size_t>(spec.chosen), -1);
      selected.insert(selected.end(), row.begin(), row.end());
    }
  }
  selected.resize(static_cast<size_t>(made.tokens * spec.chosen), 1 << 20);
  params.selected = data.Ints({made.tokens, spec.chosen}, selected);
}

void Fill(const Spec& spec, Case<AttentionParams>& made) {
  ProblemData& data = made.data;
  AttentionParams& params = made.params;
  int64_t last = 1;
  for (const auto& [start, tokens] : spec.requests) {
    made.tokens += tokens;
    last = std::max<int64_t>(last, start + tokens);
  }
  made.tokens += spec.inert;
  const Shape shape{made.tokens, spec.heads, spec.layout.width};
  params.q = data.Normal(shape, spec.spread);
  params.sink = data.Normal({spec.heads}, 3);
  params.requests = data.Requests(spec.requests);
  AddWindow(spec, last, made);
  if (spec.ratio > 0) {
    AddEntries(spec, last, made);
  }
  params.o = data.Unwritten(DType::kF32, shape);
  made.outputs = {{"o", params.o, {}}};
}

std::vector<Problem<AttentionParams>> ProblemsOf(std::span<const Spec> specs) {
  std::vector<Problem<AttentionParams>> problems;
  for (const Spec& spec : specs) {
    std::string name =
        fmt::format("{} heads, {} of {}, ratio {}, {} chosen, window {}{}{}", spec.heads,
                    NameOf(spec.layout), spec.layout.width, spec.ratio, spec.chosen, spec.window,
                    spec.block ? ", block" : "", spec.spread != 1 ? ", peaked" : "");
    for (const auto& [start, tokens] : spec.requests) {
      name += fmt::format(", {}+{}", start, tokens);
    }
    if (spec.inert > 0) {
      name += fmt::format(", {} inert", spec.inert);
    }
    problems.push_back(
        {name, NameOf(spec.layout), [spec](Case<AttentionParams>& made) { Fill(spec, made); }});
  }
  return problems;
}

}  // namespace

std::vector<Problem<AttentionParams>> AttentionProblems() {
  const RowLayout plain{RowFormat::kF32, RowRounding::kNone, 64, 16};
  const RowLayout fp8_f32{RowFormat::kF32, RowRounding::kFp8, 128, 64};
  const RowLayout bf16{RowFormat::kBf16, RowRounding::kNone, 512, 64};
  const RowLayout fp8_bf16{RowFormat::kBf16, RowRounding::kFp8, 128, 64};
  const RowLayout packed{RowFormat::kFp8Bf16, RowRounding::kFp8, 512, 64};
  const RowLayout small{RowFormat::kFp8Bf16, RowRounding::kFp8, 128, 64};
  const Spec specs[] = {
      {4, plain, 0, 0, 16, 16, {}},
      {4, plain, 0, 0, 16, 16, {{0, 0}}},
      {4, plain, 0, 0, 16, 16, {{0, 1}}},
      {8, plain, 0, 0, 16, 16, {{0, 17}, {40, 3}}},
      {3, {RowFormat::kF32, RowRounding::kNone, 40, 8}, 0, 0, 16, 16, {{9, 5}}},
      {4, plain, 0, 0, 128, 128, {{100, 5}}, true},
      {8, fp8_f32, 4, 16, 16, 16, {{0, 9}, {300, 3}}},
      {2, fp8_f32, 128, 0, 128, 128, {{500, 3}}},
      {4, bf16, 4, 8, 128, 128, {{126, 5}}},
      {4, fp8_bf16, 4, 512, 16, 128, {{200, 3}}},
      {64, packed, 4, 64, 128, 128, {{300, 2}}},
      {64, packed, 0, 0, 128, 128, {{250, 1}}},
      {5, packed, 128, 0, 128, 128, {{509, 5}}},
      {8, small, 4, 5, 16, 16, {{3, 1}, {2, 2}, {64, 0}, {127, 4}}},
      {8, small, 4, 0, 128, 128, {{260, 2}}},
      {8, small, 128, 0, 16, 16, {{0, 3}, {255, 3}}},
      {8, small, 4, 16, 16, 16, {{70, 5}}, false, 30},
      // More tokens than share decoded rows, with a window and entries beyond the rows that are kept;
      // every number of heads that is left over by a tile.
      {7, small, 4, 700, 300, 128, {{2590, 40}}},
      {6, small, 4, 0, 128, 128, {{120, 300}}},
      {9, small, 128, 0, 40, 16, {{250, 35}, {0, 1}}},
      {8, small, 4, 16, 16, 16, {{70, 1}, {5, 1}, {0, 0}, {0, 0}}, false, 1, 3},
      {4, plain, 0, 0, 16, 16, {{20, 1}, {0, 0}}, false, 1, 40},
      {8, small, 128, 0, 16, 16, {{0, 0}}, false, 1, 2},
      {10, {RowFormat::kFp8Bf16, RowRounding::kFp8, 512, 64}, 4, 33, 70, 128, {{131, 6}}},
  };
  return ProblemsOf(specs);
}

std::vector<Problem<AttentionParams>> LargeAttentionProblems() {
  const RowLayout flash{RowFormat::kFp8Bf16, RowRounding::kFp8, 512, 64};
  std::vector<Spec> specs;
  for (const int64_t heads : {64, 16}) {  // V4-Flash, and the small shape
    const int64_t chosen = heads == 64 ? 512 : 128;
    for (const auto& request : {std::pair{16384, 1}, {131072, 1}, {0, 512}, {16384, 512}}) {
      specs.push_back({heads, flash, 4, chosen, 128, 128, {request}});
      specs.push_back({heads, flash, 128, 0, 128, 128, {request}});
    }
    specs.push_back({heads, flash, 0, 0, 128, 128, {{16384, 1}}});
    specs.push_back({heads, flash, 0, 0, 128, 128, {{0, 512}}});
  }
  return ProblemsOf(specs);
}

AttentionParams Slice(const AttentionParams& params, int64_t begin, int64_t end,
                      ProblemData& data) {
  AttentionParams part = params;
  part.q = params.q.Rows(begin, end);
  part.requests = data.Slice(params.requests, begin, end);
  part.key_begin = params.key_begin.Rows(begin, end);
  part.key_end = params.key_end.Rows(begin, end);
  if (!params.selected.empty()) {
    part.selected = params.selected.Rows(begin, end);
  }
  part.o = params.o.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
