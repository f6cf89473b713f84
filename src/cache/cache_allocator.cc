#include "cache/cache_allocator.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

int64_t FloorToPage(int64_t tokens) { return tokens / kPageTokens * kPageTokens; }

PageId PageOf(SlotId slot, int64_t page_slots) {
  return PageId(static_cast<int32_t>(slot.value / page_slots));
}

// The pages of a column range of one part of a set.
std::span<const PageId> From(const std::vector<PageId>& pages, int64_t begin) {
  return std::span(pages).subspan(std::min(static_cast<size_t>(begin), pages.size()));
}

}  // namespace

const char* NameOf(CachePool pool) {
  switch (pool) {
    case CachePool::kFull:
      return "full";
    case CachePool::kSwa:
      return "swa";
    case CachePool::kC128:
      return "c128";
    case CachePool::kC4State:
      return "c4 state";
    case CachePool::kC128State:
      return "c128 state";
  }
  return "?";
}

SlotId LastSlot(std::span<const PageId> pages, int64_t length, int64_t page_slots) {
  if (length == 0) {
    return SlotId(-1);
  }
  const int64_t page = pages[static_cast<size_t>((length - 1) / page_slots)].value;
  return SlotId(static_cast<int32_t>(page * page_slots + (length - 1) % page_slots));
}

// What each pool is asked for by one batch.
struct CacheAllocator::Plan {
  std::vector<Extension> full;
  std::vector<Extension> swa;
  std::vector<Extension> c128;
  std::vector<TokenRange> tokens;
  std::array<std::vector<Extension>, 2> state;
};

CacheAllocator::CacheAllocator(const CacheGeometry& geometry)
    : geometry_(geometry),
      full_(geometry.full_pages, kPageTokens),
      swa_(geometry.swa_pages, kPageTokens),
      c128_(geometry.c128_pages, geometry.c128_page_entries),
      state_{StatePool(4, geometry.c4_state_pages, geometry.max_requests),
             StatePool(128, geometry.c128_state_pages, geometry.max_requests)},
      slots_(geometry.max_requests, 1),
      swa_of_(static_cast<size_t>(geometry.full_pages) + 1),
      requests_(static_cast<size_t>(geometry.max_requests) + 1) {}

const CacheAllocator::Request& CacheAllocator::row(RequestSlot slot) const {
  CACHALOT_CHECK(slot.value > 0 && static_cast<size_t>(slot.value) < requests_.size() &&
                     requests_[static_cast<size_t>(slot.value)].running,
                 "request slot {} is not taken", slot);
  return requests_[static_cast<size_t>(slot.value)];
}

CacheAllocator::Request& CacheAllocator::row(RequestSlot slot) {
  return const_cast<Request&>(std::as_const(*this).row(slot));
}

const PageAllocator& CacheAllocator::allocator(CachePool pool) const {
  switch (pool) {
    case CachePool::kSwa:
      return swa_;
    case CachePool::kC128:
      return c128_;
    case CachePool::kC4State:
      return state(4).allocator();
    case CachePool::kC128State:
      return state(128).allocator();
    case CachePool::kFull:
      break;
  }
  return full_;
}

int64_t CacheAllocator::available_pages(CachePool pool) const {
  return allocator(pool).available_pages();
}

int64_t CacheAllocator::available_tokens() const {
  int64_t pages = std::min(full_.available_pages(), swa_.available_pages());
  if (geometry_.has_c128()) {
    pages = std::min(pages, c128_.available_pages() * geometry_.c128_page_entries);
  }
  if (state(4).exists() && state(4).allocator().available_pages() == 0) {
    pages = 0;  // its last page is the tail
  }
  return pages * kPageTokens;
}

std::optional<RequestSlot> CacheAllocator::TakeRequest() {
  const Extension one{0, 1, SlotId(-1)};
  const auto taken = slots_.AllocExtend({&one, 1});
  if (!taken) {
    return std::nullopt;
  }
  const RequestSlot slot(taken->front().value);
  Request& request = requests_[static_cast<size_t>(slot.value)];
  request.running = true;
  request.ring = PageId(slot.value);
  return slot;
}

Outcome<PageId> CacheAllocator::Adopt(RequestSlot slot, const PageSet& prefix) {
  Request& request = row(slot);
  const auto num_pages = static_cast<int64_t>(prefix.full.size());
  CACHALOT_CHECK_EQ(request.length, 0);
  CACHALOT_CHECK_EQ(prefix.swa.size(), prefix.full.size());
  CACHALOT_CHECK(num_pages == 0 || !geometry_.has_paged_state(),
                 "a prefix of {} pages has no state: it is kept by request", num_pages);
  // The window of the next token must be there.
  const int64_t seen = std::max<int64_t>(0, num_pages * kPageTokens - geometry_.window);
  for (int64_t i = seen / kPageTokens; i < num_pages; ++i) {
    CACHALOT_CHECK(prefix.swa[static_cast<size_t>(i)].value > 0, "prefix without its window");
  }
  int64_t unfinished = 0;
  if (geometry_.has_c128()) {
    CACHALOT_CHECK_EQ(static_cast<int64_t>(prefix.c128.size()),
                      num_pages / geometry_.c128_page_entries);
    unfinished = num_pages % geometry_.c128_page_entries;
  }
  const int64_t need = unfinished > 0 ? 1 : 0;
  if (need > c128_.available_pages()) {
    return tl::unexpected(Exhausted{CachePool::kC128, need, c128_.available_pages()});
  }
  Retain(prefix);
  request.pages = prefix;
  request.length = num_pages * kPageTokens;
  if (unfinished == 0) {
    return PageId(0);
  }
  const Extension group{0, unfinished, SlotId(-1)};
  const PageId own = PageOf(c128_.AllocExtend({&group, 1})->front(), c128_.page_slots());
  request.pages.c128.push_back(own);
  return own;
}

CacheAllocator::Plan CacheAllocator::PlanOf(std::span<const Growth> batch) const {
  Plan plan;
  std::set<RequestSlot> seen;
  for (const Growth& growth : batch) {
    const Request& request = row(growth.slot);
    CACHALOT_CHECK(seen.insert(growth.slot).second, "request slot {} twice in a batch",
                   growth.slot);
    CACHALOT_CHECK_GE(growth.num_tokens, 0);
    CACHALOT_CHECK_LE(growth.num_tokens, std::numeric_limits<int32_t>::max() - request.length);
    const int64_t prefix = request.length;
    const int64_t seq = prefix + growth.num_tokens;
    if (prefix % kPageTokens != 0) {
      // cache.I8: a page that others hold is complete.
      CACHALOT_CHECK_EQ(full_.holders(request.pages.full.back()), 1);
    }
    plan.full.push_back({prefix, seq, LastSlot(request.pages.full, prefix, kPageTokens)});
    if (growth.swa_begin.value == 0) {
      plan.swa.push_back({prefix, seq, LastSlot(request.pages.swa, prefix, kPageTokens)});
    } else {
      CACHALOT_CHECK_EQ(prefix, 0);
      CACHALOT_CHECK_LE(int64_t{growth.swa_begin.value}, seq);
      plan.swa.push_back({FloorToPage(growth.swa_begin.value), seq, SlotId(-1)});
    }
    if (geometry_.has_c128()) {
      plan.c128.push_back({prefix / 128, seq / 128,
                           LastSlot(request.pages.c128, prefix / 128, c128_.page_slots())});
    }
    plan.tokens.push_back({growth.slot, prefix, seq});
  }
  plan.state = {state_[0].Ask(plan.tokens), state_[1].Ask(plan.tokens)};
  return plan;
}

Outcome<OutCacheLoc> CacheAllocator::Extend(std::span<const Growth> batch) {
  const Plan plan = PlanOf(batch);
  const struct {
    CachePool pool;
    const std::vector<Extension>& batch;
  } asked[] = {{CachePool::kFull, plan.full},
               {CachePool::kSwa, plan.swa},
               {CachePool::kC128, plan.c128},
               {CachePool::kC4State, plan.state[0]},
               {CachePool::kC128State, plan.state[1]}};
  for (const auto& ask : asked) {
    const int64_t need = allocator(ask.pool).PagesNeeded(ask.batch);
    const int64_t have = available_pages(ask.pool);
    if (need > have) {
      return tl::unexpected(Exhausted{ask.pool, need, have});
    }
  }
  // cache.I6: from here on nothing can fail.
  OutCacheLoc loc;
  loc.full = *full_.AllocExtend(plan.full);
  loc.c128 = *c128_.AllocExtend(plan.c128);
  loc.c4_state = state_[0].Take(plan.tokens);
  loc.c128_state = state_[1].Take(plan.tokens);
  const std::vector<SlotId> swa = *swa_.AllocExtend(plan.swa);
  size_t token = 0;
  size_t window = 0;
  size_t entry = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Extension& rows = plan.swa[i];
    const auto num_tokens = static_cast<size_t>(batch[i].num_tokens);
    const auto num_rows = static_cast<size_t>(rows.seq - rows.prefix);
    loc.swa.resize(token + num_tokens - num_rows);
    loc.swa.insert(loc.swa.end(), swa.begin() + static_cast<std::ptrdiff_t>(window),
                   swa.begin() + static_cast<std::ptrdiff_t>(window + num_rows));
    Install(batch[i], loc, token, entry);
    token += num_tokens;
    window += num_rows;
    entry += geometry_.has_c128() ? static_cast<size_t>(plan.c128[i].seq - plan.c128[i].prefix) : 0;
  }
  if (geometry_.has_c4) {
    for (const SlotId slot : loc.full) {
      if (slot.value % 4 == 3) {
        loc.c4.push_back(SlotId(slot.value / 4));
      }
    }
  }
  return loc;
}

// Writes the request's tables from its part of `loc`, which begins at `token` and `entry`.
void CacheAllocator::Install(const Growth& growth, const OutCacheLoc& loc, size_t token,
                             size_t entry) {
  Request& request = row(growth.slot);
  const int64_t end = request.length + growth.num_tokens;
  for (int64_t i = request.length; i < end; ++i, ++token) {
    if (i % kPageTokens == 0) {
      const PageId full = PageOf(loc.full[token], kPageTokens);
      const PageId swa = PageOf(loc.swa[token], kPageTokens);
      request.pages.full.push_back(full);
      request.pages.swa.push_back(swa);
      swa_of_[static_cast<size_t>(full.value)] = swa;
    }
  }
  if (geometry_.has_c128()) {
    for (int64_t i = request.length / 128; i < end / 128; ++i, ++entry) {
      if (i % c128_.page_slots() == 0) {
        request.pages.c128.push_back(PageOf(loc.c128[entry], c128_.page_slots()));
      }
    }
  }
  request.length = end;
}

Outcome<OutCacheLoc> CacheAllocator::Decode(std::span<const RequestSlot> slots) {
  std::vector<Growth> batch;
  for (const RequestSlot slot : slots) {
    batch.push_back({slot, 1, TokenPos(0)});
  }
  return Extend(batch);
}

void CacheAllocator::Trim(RequestSlot slot, int64_t length) {
  Request& request = row(slot);
  CACHALOT_CHECK_GE(length, request.evicted);
  CACHALOT_CHECK_LE(length, request.length);
  const int64_t num_pages = CeilDiv(length, kPageTokens);
  const int64_t num_c128 =
      geometry_.has_c128() ? CeilDiv(length / 128, geometry_.c128_page_entries) : 0;
  PageSet& pages = request.pages;
  const auto copy = [](std::span<const PageId> part) {
    return std::vector<PageId>(part.begin(), part.end());
  };
  Release({copy(From(pages.full, num_pages)), copy(From(pages.swa, num_pages)),
           copy(From(pages.c128, num_c128))});
  pages.full.resize(static_cast<size_t>(num_pages));
  pages.swa.resize(static_cast<size_t>(num_pages));
  pages.c128.resize(static_cast<size_t>(num_c128));
  for (StatePool& state : state_) {
    state.Trim({slot, length, request.length});
  }
  request.length = length;
}

int64_t CacheAllocator::EvictPast(RequestSlot slot, int64_t committed) {
  Request& request = row(slot);
  CACHALOT_CHECK_LE(committed, request.length);
  // cache.I13, I18: at least a page, so that its end can be resumed.
  const int64_t kept = std::max(geometry_.window, kPageTokens);
  const int64_t threshold = FloorToPage(std::max<int64_t>(0, committed - kept));
  if (threshold > request.evicted) {
    const auto begin = static_cast<size_t>(request.evicted / kPageTokens);
    const auto end = static_cast<size_t>(threshold / kPageTokens);
    ReleaseSwa(request.pages, begin, end);
    std::fill(request.pages.swa.begin() + static_cast<std::ptrdiff_t>(begin),
              request.pages.swa.begin() + static_cast<std::ptrdiff_t>(end), PageId(0));
    request.evicted = threshold;
  }
  for (StatePool& state : state_) {
    state.Evict(slot, committed);
  }
  return request.evicted;
}

void CacheAllocator::Free(RequestSlot slot) {
  Request& request = row(slot);
  Release(request.pages);
  for (StatePool& state : state_) {
    state.Free(slot);
  }
  request = Request();
  const PageId as_page(slot.value);
  slots_.Release({&as_page, 1});
}

PageAllocator& CacheAllocator::MutableAllocator(CachePool pool) {
  return const_cast<PageAllocator&>(std::as_const(*this).allocator(pool));
}

std::optional<PageId> CacheAllocator::Take(CachePool pool) {
  PageAllocator& pages = MutableAllocator(pool);
  const Extension one{0, 1, SlotId(-1)};
  const auto taken = pages.AllocExtend({&one, 1});
  if (!taken) {
    return std::nullopt;
  }
  return PageOf(taken->front(), pages.page_slots());
}

void CacheAllocator::Return(CachePool pool, PageId page) {
  MutableAllocator(pool).Release({&page, 1});
}

void CacheAllocator::SetWindow(PageId full, PageId swa) {
  CACHALOT_CHECK_GT(full_.holders(full), 0);
  CACHALOT_CHECK_GT(swa_.holders(swa), 0);
  PageId& window = swa_of_[static_cast<size_t>(full.value)];
  CACHALOT_CHECK_EQ(window.value, 0);
  window = swa;
}

void CacheAllocator::Retain(const PageSet& pages) {
  full_.Retain(pages.full);
  swa_.Retain(pages.swa);
  c128_.Retain(pages.c128);
}

void CacheAllocator::Release(const PageSet& pages) {
  CACHALOT_CHECK_EQ(pages.swa.size(), pages.full.size());
  ReleaseSwa(pages, 0, pages.swa.size());
  for (const PageId page : full_.Release(pages.full)) {
    CACHALOT_CHECK_EQ(swa_of_[static_cast<size_t>(page.value)].value, 0);
  }
  c128_.Release(pages.c128);
}

// A window page that becomes free is no longer that of its full page.
void CacheAllocator::ReleaseWindow(PageId full, PageId swa) {
  if (!swa_.Release({&swa, 1}).empty()) {
    swa_of_[static_cast<size_t>(full.value)] = PageId(0);
  }
}

void CacheAllocator::ReleaseSwa(const PageSet& pages, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    ReleaseWindow(pages.full[i], pages.swa[i]);
  }
}

void CacheAllocator::Clear() { *this = CacheAllocator(geometry_); }

std::string CacheAllocator::LeakReport() const {
  std::string report;
  const auto add = [&](const char* name, const PageAllocator& pages) {
    if (pages.available_pages() != pages.num_pages()) {
      report += fmt::format("{}{}: {} of {} are free", report.empty() ? "" : ", ", name,
                            pages.available_pages(), pages.num_pages());
    }
  };
  for (const CachePool pool : kCachePools) {
    add(NameOf(pool), allocator(pool));
  }
  add("requests", slots_);
  return report;
}

std::span<const PageId> CacheAllocator::state_pages(RequestSlot slot, int64_t ratio) const {
  const Request& request = row(slot);
  if (state(ratio).exists()) {
    return state(ratio).pages(slot);
  }
  // cache.I15: a ring of c4 state belongs to a window page, one of c128 state to a request.
  return ratio == 4 ? std::span(request.pages.swa) : std::span(&request.ring, 1);
}

SlotId CacheAllocator::SwaSlot(SlotId full) const {
  if (full.value < 0) {
    return SlotId(-1);
  }
  const PageId page = swa_of_[static_cast<size_t>(full.value / kPageTokens)];
  if (page.value == 0) {
    return SlotId(0);
  }
  return SlotId(static_cast<int32_t>(page.value * kPageTokens + full.value % kPageTokens));
}

}  // namespace cachalot
