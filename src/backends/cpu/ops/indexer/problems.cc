#include "backends/cpu/ops/indexer/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace cachalot::cpu {
namespace {

enum class Ties : uint8_t { kNone, kPairs, kAll };

struct Spec {
  int64_t heads;
  RowLayout layout;
  int64_t top_k;
  int64_t page_entries;
  std::vector<std::pair<int32_t, int32_t>> requests;  // start_pos, tokens
  Ties ties = Ties::kNone;
  bool rising = false;  // later keys are larger, so every entry is among the largest for a while
  int64_t inert = 0;    // tokens of nobody, after the others
};

void Fill(const Spec& spec, Case<IndexerParams>& made) {
  ProblemData& data = made.data;
  IndexerParams& params = made.params;
  int64_t entries = 1;
  for (const auto& [start, tokens] : spec.requests) {
    made.tokens += tokens;
    entries = std::max<int64_t>(entries, (start + tokens) / 4);
  }
  made.tokens += spec.inert;
  const int64_t width = spec.layout.width;
  params.q = data.Normal({made.tokens, spec.heads, width});
  params.weights = data.Normal({made.tokens, spec.heads}, spec.ties == Ties::kAll ? 0 : 1);
  const auto requests = static_cast<int64_t>(spec.requests.size());
  const int64_t pages = (entries + spec.page_entries - 1) / spec.page_entries;
  params.pages = data.Pages(requests, pages);
  params.page_entries = spec.page_entries;
  params.keys = data.Pool(spec.layout, requests * pages * spec.page_entries);
  if (spec.ties == Ties::kPairs) {
    for (int64_t row = 0; row + 1 < params.keys.num_rows; row += 2) {
      std::memcpy(params.keys.row(row + 1), params.keys.row(row),
                  static_cast<size_t>(spec.layout.bytes()));
    }
  }
  if (spec.rising) {
    for (int64_t e = 0; e < pages * spec.page_entries; ++e) {
      const int32_t page = params.pages.As<int32_t>()[e / spec.page_entries];
      auto* row =
          static_cast<uint8_t*>(params.keys.row(page * spec.page_entries + e % spec.page_entries));
      for (int64_t i = spec.layout.width / 2; i < spec.layout.bytes(); ++i) {
        row[i] = static_cast<uint8_t>(100 + e / 100);  // the scales of an fp4 row
      }
    }
  }
  params.requests = data.Requests(spec.requests);
  params.top_k = spec.top_k;
  params.selected = data.Unwritten(DType::kI32, {made.tokens, spec.top_k});
  made.outputs = {{"selected", params.selected, {}}};
}

std::vector<Problem<IndexerParams>> ProblemsOf(std::span<const Spec> specs) {
  std::vector<Problem<IndexerParams>> problems;
  for (const Spec& spec : specs) {
    std::string name =
        fmt::format("{} heads, {} of {}, top {}{}", spec.heads, NameOf(spec.layout),
                    spec.layout.width, spec.top_k, spec.ties != Ties::kNone ? ", tied" : "");
    name += spec.rising ? ", rising" : "";
    for (const auto& [start, tokens] : spec.requests) {
      name += fmt::format(", {}+{}", start, tokens);
    }
    if (spec.inert > 0) {
      name += fmt::format(", {} inert", spec.inert);
    }
    problems.push_back(
        {name, NameOf(spec.layout), [spec](Case<IndexerParams>& made) { Fill(spec, made); }});
  }
  return problems;
}

}  // namespace

std::vector<Problem<IndexerParams>> IndexerProblems() {
  const RowLayout fp4{RowFormat::kFp4, RowRounding::kFp4, 128, 0};
  const RowLayout fp4_wide{RowFormat::kFp4, RowRounding::kFp4, 256, 0};
  const RowLayout fp4_narrow{RowFormat::kFp4, RowRounding::kFp4, 32, 0};
  const RowLayout fp4_f32{RowFormat::kF32, RowRounding::kFp4, 64, 0};
  const RowLayout int8{RowFormat::kInt8, RowRounding::kInt8, 128, 0};
  const RowLayout int8_f32{RowFormat::kF32, RowRounding::kInt8, 128, 0};
  const RowLayout plain{RowFormat::kF32, RowRounding::kNone, 32, 0};
  const Spec specs[] = {
      {8, fp4, 16, 32, {}},
      {8, fp4, 16, 32, {{0, 0}}},
      {8, fp4, 16, 32, {{0, 5}}},
      {8, fp4, 16, 32, {{0, 63}}},
      {64, fp4, 5, 32, {{400, 3}}},
      {64, fp4, 64, 32, {{1003, 1}, {20, 2}}},
      {8, fp4, 512, 32, {{2047, 5}}},
      {3, fp4, 7, 4, {{60, 17}}},
      {8, fp4_f32, 8, 16, {{33, 5}, {0, 0}, {200, 1}}},
      {8, int8, 16, 32, {{500, 5}}},
      {5, int8_f32, 1, 32, {{101, 3}}},
      {4, plain, 8, 32, {{130, 3}}},
      {8, fp4, 9, 32, {{300, 3}}, Ties::kPairs},
      {8, int8, 9, 32, {{300, 3}}, Ties::kPairs},
      {8, fp4, 9, 32, {{300, 3}}, Ties::kAll},
      // More entries than a thread keeps candidates, more tokens than go through together.
      {2, fp4, 40, 32, {{14001, 2}}},
      {3, fp4, 300, 32, {{11003, 1}}, Ties::kPairs},
      {1, fp4, 5, 32, {{9600, 1}}, Ties::kAll},
      {2, fp4, 64, 32, {{10900, 2}}, Ties::kNone, true},
      {5, int8, 40, 32, {{9999, 1}}},
      {2, fp4, 6, 32, {{30, 37}, {900, 1}, {0, 1}, {410, 9}}},
      {8, fp4, 9, 32, {{300, 1}, {7, 1}, {0, 0}}, Ties::kNone, false, 3},
      {4, plain, 8, 32, {{130, 1}}, Ties::kNone, false, 40},
      {8, int8, 9, 32, {{0, 0}}, Ties::kNone, false, 2},
      {9, fp4_wide, 12, 32, {{260, 2}}},
      {4, fp4_narrow, 12, 32, {{260, 2}}},
  };
  return ProblemsOf(specs);
}

std::vector<Problem<IndexerParams>> LargeIndexerProblems() {
  const RowLayout flash{RowFormat::kFp4, RowRounding::kFp4, 128, 0};
  std::vector<Spec> specs;
  for (const int64_t heads : {64, 16}) {  // V4-Flash, and the small shape
    for (const auto& request : {std::pair{16384, 1}, {131072, 1}, {0, 512}, {16384, 512}}) {
      specs.push_back({heads, flash, heads == 64 ? 512 : 128, 32, {request}});
    }
  }
  return ProblemsOf(specs);
}

IndexerParams Slice(const IndexerParams& params, int64_t begin, int64_t end, ProblemData& data) {
  IndexerParams part = params;
  part.q = params.q.Rows(begin, end);
  part.weights = params.weights.Rows(begin, end);
  part.requests = data.Slice(params.requests, begin, end);
  part.selected = params.selected.Rows(begin, end);
  return part;
}

}  // namespace cachalot::cpu
