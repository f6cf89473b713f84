#include "cache/state_pool.h"

#include <algorithm>

#include "base/check.h"
#include "cache/paged_state.h"

namespace cachalot {

StatePool::StatePool(int64_t ratio, int64_t num_pages, int64_t max_requests)
    : ratio_(ratio),
      pages_(num_pages, kPageTokens),
      tables_(static_cast<size_t>(max_requests) + 1) {}

StatePool::Rows StatePool::RowsOf(const TokenRange& tokens) const {
  if (!exists()) {
    return {tokens.begin, tokens.end};
  }
  const int64_t fill_end = std::min(RoundUpTo(tokens.begin, kPageTokens), tokens.end);
  return {fill_end, std::max(fill_end, tokens.end - StateTail(ratio_, tokens.end))};
}

// In rows as the request has had them: their number is the raw position modulo a page (I34).
std::vector<Extension> StatePool::Ask(std::span<const TokenRange> batch) const {
  std::vector<Extension> extensions;
  for (const TokenRange& tokens : batch) {
    const Table& had = table(tokens.slot);
    const Rows rows = RowsOf(tokens);
    const int64_t count = rows.fill_end - tokens.begin + tokens.end - rows.tail_begin;
    SlotId last(-1);
    if (exists() && tokens.begin % kPageTokens != 0) {
      const PageId begun = PageAt(had, tokens.begin);
      CACHALOT_CHECK(begun.value > 0, "token {} continues a page without state", tokens.begin);
      last =
          SlotId(static_cast<int32_t>(begun.value * kPageTokens + tokens.begin % kPageTokens - 1));
    }
    extensions.push_back({had.rows, had.rows + count, last});
  }
  return extensions;
}

std::vector<SlotId> StatePool::Take(std::span<const TokenRange> batch) {
  if (!exists()) {
    return {};
  }
  std::vector<SlotId> slots = *pages_.AllocExtend(Ask(batch));
  auto next = slots.begin();
  for (const TokenRange& tokens : batch) {
    Table& had = table(tokens.slot);
    const Rows rows = RowsOf(tokens);
    had.pages.resize(static_cast<size_t>(CeilDiv(tokens.end, kPageTokens)));
    if (tokens.begin == 0) {
      had.offset = rows.tail_begin;
    }
    const auto install = [&](int64_t begin, int64_t end) {
      for (int64_t position = begin; position < end; ++position, ++next, ++had.rows) {
        had.pages[static_cast<size_t>(position / kPageTokens)] =
            PageId(static_cast<int32_t>(next->value / kPageTokens));
      }
    };
    install(tokens.begin, rows.fill_end);
    install(rows.tail_begin, tokens.end);
  }
  return slots;
}

void StatePool::Trim(const TokenRange& tokens) {
  if (!exists()) {
    return;
  }
  Table& had = table(tokens.slot);
  for (int64_t position = tokens.begin; position < tokens.end; ++position) {
    had.rows -= PageAt(had, position).value > 0 ? 1 : 0;
  }
  const int64_t columns = CeilDiv(tokens.begin, kPageTokens);
  Release(had, columns, static_cast<int64_t>(had.pages.size()));
  had.pages.resize(static_cast<size_t>(columns));
  CheckReadable(tokens.slot, tokens.begin);
}

void StatePool::Evict(RequestSlot slot, int64_t committed) {
  Table& had = table(slot);
  const int64_t watermark = StateWatermark(ratio_, committed);
  if (exists() && watermark > had.offset) {
    Release(had, had.offset / kPageTokens, watermark / kPageTokens);
    had.offset = watermark;
  }
}

void StatePool::Free(RequestSlot slot) {
  pages_.Release(table(slot).pages);
  table(slot) = Table();
}

void StatePool::CheckReadable(RequestSlot slot, int64_t num_tokens) const {
  const Table& had = table(slot);
  const int64_t first = FirstStateRead(ratio_, num_tokens);
  if (exists() && first < num_tokens) {
    CACHALOT_CHECK(PageAt(had, first).value > 0 && PageAt(had, num_tokens - 1).value > 0,
                   "the state of positions {} to {}, of ratio {}, is gone", first, num_tokens - 1,
                   ratio_);
  }
}

void StatePool::Release(Table& had, int64_t begin_column, int64_t end_column) {
  const auto begin = had.pages.begin() + begin_column;
  const auto end = had.pages.begin() + end_column;
  pages_.Release({begin, end});
  std::fill(begin, end, PageId(0));
}

}  // namespace cachalot
