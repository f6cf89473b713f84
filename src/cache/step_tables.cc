#include "cache/step_tables.h"

#include <algorithm>

#include "base/check.h"

namespace cachalot {
namespace {

int32_t Row(std::span<const PageId> pages, int64_t index, int64_t page_rows) {
  const PageId page = pages[static_cast<size_t>(index / page_rows)];
  CACHALOT_CHECK(page.value > 0, "element {} of a request has no page", index);
  return static_cast<int32_t>(page.value * page_rows + index % page_rows);
}

// The first pages of each request, as many as `counts` says.
PageTable TableOf(const std::vector<std::span<const PageId>>& pages) {
  PageTable table;
  table.rows = static_cast<int64_t>(pages.size());
  for (const auto& row : pages) {
    table.columns = std::max(table.columns, static_cast<int64_t>(row.size()));
  }
  table.values.resize(static_cast<size_t>(table.rows * table.columns));
  for (size_t i = 0; i < pages.size(); ++i) {
    const auto begin = table.values.begin() + static_cast<std::ptrdiff_t>(i) * table.columns;
    std::transform(pages[i].begin(), pages[i].end(), begin, [](PageId page) { return page.value; });
  }
  return table;
}

std::span<const PageId> FirstOf(std::span<const PageId> pages, size_t count) {
  return pages.first(std::min(count, pages.size()));
}

// Rows for the entries that end in positions [begin, end).
void AddEntries(std::span<const PageId> pages, int64_t ratio, int64_t page_rows, int64_t begin,
                int64_t end, std::vector<int32_t>& slots) {
  for (int64_t entry = begin / ratio; entry < end / ratio; ++entry) {
    slots.push_back(Row(pages, entry, page_rows));
  }
}

}  // namespace

StepTables BuildStepTables(const CacheAllocator& cache, std::span<const StepRequest> requests) {
  const CacheGeometry& geometry = cache.geometry();
  StepTables tables;
  tables.num_requests = static_cast<int64_t>(requests.size());
  tables.query_starts.push_back(0);
  std::vector<std::span<const PageId>> swa;
  std::vector<std::span<const PageId>> full;
  std::vector<std::span<const PageId>> c128;
  std::vector<std::span<const PageId>> c4_state;
  std::vector<std::span<const PageId>> c128_state;
  for (const StepRequest& request : requests) {
    const PageSet& pages = cache.pages(request.slot);
    const int64_t begin = request.start_pos.value;
    const int64_t end = begin + request.num_tokens;
    CACHALOT_CHECK_GE(begin, 0);
    CACHALOT_CHECK_GE(request.num_tokens, 0);
    CACHALOT_CHECK_LE(end, cache.length(request.slot));

    tables.start_pos.push_back(request.start_pos.value);
    for (int64_t position = begin; position < end; ++position) {
      tables.positions.push_back(static_cast<int32_t>(position));
      tables.window_slots.push_back(Row(pages.swa, position, kPageTokens));
    }
    if (request.num_tokens > 0) {
      for (int64_t seen = std::max<int64_t>(0, begin + 1 - geometry.window); seen < begin;
           seen += kPageTokens) {
        Row(pages.swa, seen, kPageTokens);
      }
      cache.state(4).CheckReadable(request.slot, begin);
      cache.state(128).CheckReadable(request.slot, begin);
    }
    if (geometry.has_c4) {
      AddEntries(pages.full, 4, kC4PageEntries, begin, end, tables.c4_slots);
    }
    if (geometry.has_c128()) {
      AddEntries(pages.c128, 128, geometry.c128_page_entries, begin, end, tables.c128_slots);
    }
    // Only what the step can see: pages for drafts beyond it are left out.
    const auto num_pages = static_cast<size_t>(CeilDiv(end, kPageTokens));
    swa.push_back(std::span(pages.swa).first(num_pages));
    full.push_back(std::span(pages.full).first(geometry.has_c4 ? num_pages : 0));
    c128.push_back(std::span(pages.c128)
                       .first(geometry.has_c128() ? static_cast<size_t>(CeilDiv(
                                                        end / 128, geometry.c128_page_entries))
                                                  : 0));
    c4_state.push_back(FirstOf(cache.state_pages(request.slot, 4), num_pages));
    c128_state.push_back(FirstOf(cache.state_pages(request.slot, 128), num_pages));
    tables.num_tokens += request.num_tokens;
    tables.query_starts.push_back(static_cast<int32_t>(tables.num_tokens));
  }
  tables.window_pages = TableOf(swa);
  tables.c4_pages = TableOf(full);
  tables.c128_pages = TableOf(c128);
  tables.c4_state_pages = TableOf(c4_state);
  tables.c128_state_pages = TableOf(c128_state);
  return tables;
}

}  // namespace cachalot
