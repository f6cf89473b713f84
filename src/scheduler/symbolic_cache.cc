#include "scheduler/symbolic_cache.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "cache/paged_state.h"
#include "cache/ring_state.h"
#include "cache/step_tables.h"

namespace cachalot {
namespace {

StateLayout LayoutOf(int64_t ratio, int64_t own_pages, int64_t num_rings) {
  return own_pages > 0 ? PagedStateLayout(own_pages)
                       : RingStateLayout(ratio, num_rings, /*speculative=*/false);
}

template <typename Rows>
auto& At(Rows& rows, int64_t index) {
  CACHALOT_CHECK(index >= 0 && index < static_cast<int64_t>(rows.size()), "row {} of {}", index,
                 rows.size());
  return rows[static_cast<size_t>(index)];
}

constexpr uint64_t kNameOfNothing = 1;

uint64_t NameWith(uint64_t name, int32_t token) {
  name = (name ^ static_cast<uint64_t>(token)) * 0x9E3779B97F4A7C15U;
  return name ^ name >> 29;
}

}  // namespace

std::vector<uint64_t> NamesOfPrefixes(std::span<const int32_t> tokens) {
  std::vector<uint64_t> names;
  names.reserve(tokens.size());
  uint64_t name = kNameOfNothing;
  for (const int32_t token : tokens) {
    name = NameWith(name, token);
    names.push_back(name);
  }
  return names;
}

int32_t NextToken(std::span<const int32_t> tokens) {
  return static_cast<int32_t>(
      std::accumulate(tokens.begin(), tokens.end(), kNameOfNothing, NameWith) % kVocabulary);
}

SymbolicCache::SymbolicCache(const CacheGeometry& geometry)
    : geometry_(geometry),
      c4_layout_(LayoutOf(4, geometry.c4_state_pages, geometry.swa_pages)),
      c128_layout_(LayoutOf(128, geometry.c128_state_pages, geometry.max_requests)),
      window_(static_cast<size_t>((geometry.swa_pages + 1) * kPageTokens)),
      c4_state_(static_cast<size_t>(c4_layout_.buffer_rows)),
      c128_state_(static_cast<size_t>(c128_layout_.buffer_rows)),
      c4_(static_cast<size_t>((geometry.full_pages + 1) * kC4PageEntries)),
      c128_(static_cast<size_t>((geometry.c128_pages + 1) * geometry.c128_page_entries)) {}

std::vector<SymbolicCache::Symbol*> SymbolicCache::RowsOf(PagePart part, const PagePlace& place) {
  std::vector<Symbol*> rows;
  const auto add = [&](std::vector<Symbol>& pool, int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; ++i) {
      rows.push_back(&At(pool, i));
    }
  };
  if (part == PagePart::kHistory) {
    add(c4_, place.full.value * kC4PageEntries, kC4PageEntries);
    add(c128_, place.c128.value * geometry_.c128_page_entries + place.c128_row, 1);
  } else {
    add(window_, place.swa.value * kPageTokens, kPageTokens);
    add(c4_state_, (place.swa.value + 1) * c4_layout_.page_rows - 4, 4);
  }
  return rows;
}

void SymbolicCache::Move(const CacheMove& move) {
  if (const auto* clear = std::get_if<ClearRequest>(&move)) {
    if (c128_layout_.own_pages == 0) {
      const auto begin = c128_state_.begin() + clear->slot.value * c128_layout_.page_rows;
      std::fill(begin, begin + c128_layout_.page_rows, 0);
    }
    tenants_.erase(clear->slot);
  } else if (const auto* copy = std::get_if<CopyEntries>(&move)) {
    for (int64_t row = copy->begin; row < copy->begin + copy->count; ++row) {
      At(c128_, copy->to.value * geometry_.c128_page_entries + row) =
          At(c128_, copy->from.value * geometry_.c128_page_entries + row);
    }
  } else if (const auto* save = std::get_if<ToHost>(&move)) {
    auto& kept = host_[static_cast<size_t>(save->part)][save->to];
    kept.clear();
    for (const Symbol* row : RowsOf(save->part, save->from)) {
      kept.push_back(*row);
    }
  } else if (const auto* write = std::get_if<ToDisk>(&move)) {
    auto& kept = disk_[{write->page->key, write->part}];
    kept.clear();
    for (const Symbol* row : RowsOf(write->part, write->from)) {
      kept.push_back(*row);
    }
  } else if (const auto* load = std::get_if<FromHost>(&move)) {
    const auto& kept = host_[static_cast<size_t>(load->part)].at(load->from);
    const auto rows = RowsOf(load->part, load->to);
    for (size_t i = 0; i < rows.size(); ++i) {
      *rows[i] = kept[i];
    }
  }
}

bool SymbolicCache::Fetch(const DiskFetch& fetch) {
  const auto found = disk_.find({fetch.key, fetch.part});
  auto& slot = host_[IndexOf(fetch.part)][fetch.to];
  slot.assign(1, 0);  // a read that fails leaves anything
  if (found == disk_.end()) {
    return false;
  }
  slot = found->second;
  return true;
}

std::string SymbolicCache::Run(const CacheAllocator& cache, const PlannedRequest& entry,
                               std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(entry.ids.size());
  const int64_t begin = entry.start.value;
  const int64_t end = begin + count;
  const std::vector<uint64_t> names = NamesOfPrefixes(tokens);
  const StepRequest request = {entry.slot, entry.start, count};
  const StepTables tables = BuildStepTables(cache, {&request, 1});
  std::string wrong;
  const auto check = [&](const char* what, int64_t position, Symbol found) {
    if (found != At(names, position) && wrong.empty()) {
      wrong = fmt::format("request {} from {}: {} of position {} holds {}", entry.id, begin, what,
                          position, found == 0 ? "nothing" : "another text");
    }
  };
  const auto row_of = [](const PageTable& pages, int64_t index, int64_t page_rows) {
    return pages.at(0, index / page_rows) * page_rows + index % page_rows;
  };
  const auto state_row = [](const PageTable& pages, const StateLayout& layout, int64_t position) {
    return pages.at(0, position / layout.span) * layout.page_rows + position % layout.page_rows;
  };
  // cache.I16.
  if (tenants_.emplace(entry.slot, entry.id).first->second != entry.id) {
    wrong = fmt::format("request {} has slot {}, which was not cleared", entry.id, entry.slot);
  }
  // What its first token sees.
  for (int64_t p = std::max<int64_t>(0, begin + 1 - geometry_.window); p < begin; ++p) {
    check("the window row", p, At(window_, row_of(tables.window_pages, p, kPageTokens)));
  }
  if (geometry_.has_c4) {
    for (int64_t e = 0; e < begin / 4; ++e) {
      check("the c4 entry", 4 * e + 3, At(c4_, row_of(tables.c4_pages, e, kC4PageEntries)));
    }
    if (begin / 4 < end / 4) {
      for (int64_t p = std::max<int64_t>(0, begin / 4 * 4 - 4); p < begin; ++p) {
        check("the c4 state", p, At(c4_state_, state_row(tables.c4_state_pages, c4_layout_, p)));
      }
    }
  }
  if (geometry_.has_c128()) {
    for (int64_t e = 0; e < begin / 128; ++e) {
      check("the c128 entry", 128 * e + 127,
            At(c128_, row_of(tables.c128_pages, e, geometry_.c128_page_entries)));
    }
    if (begin / 128 < end / 128) {
      for (int64_t p = begin / 128 * 128; p < begin; ++p) {
        check("the c128 state", p,
              At(c128_state_, state_row(tables.c128_state_pages, c128_layout_, p)));
      }
    }
  }
  // What it leaves behind: every row, but of the states those that may be read again.
  const auto leave = [&](std::vector<Symbol>& rows, const PageTable& pages,
                         const StateLayout& layout, int64_t position) {
    if (pages.at(0, position / layout.span) > 0) {
      At(rows, state_row(pages, layout, position)) = At(names, position);
    }
  };
  size_t c4 = 0;
  size_t c128 = 0;
  for (int64_t p = begin; p < end; ++p) {
    const Symbol name = At(names, p);
    At(window_, At(tables.window_slots, p - begin)) = name;
    if (geometry_.has_c4) {
      if (p >= end / 4 * 4 - 4 || p % kPageTokens >= kPageTokens - 4) {
        leave(c4_state_, tables.c4_state_pages, c4_layout_, p);
      }
      if (p % 4 == 3) {
        At(c4_, tables.c4_slots.at(c4++)) = name;
      }
    }
    if (geometry_.has_c128()) {
      if (p >= end / 128 * 128) {
        leave(c128_state_, tables.c128_state_pages, c128_layout_, p);
      }
      if (p % 128 == 127) {
        At(c128_, tables.c128_slots.at(c128++)) = name;
      }
    }
  }
  return wrong;
}

}  // namespace cachalot
