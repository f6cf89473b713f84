// CacheAllocator: which pages each request holds in every pool, and the only place where they are
// taken and given back. All or nothing: it looks into every pool, then takes
// (docs/contracts/cache.md). Metadata only, used by one thread. A copy is a backup of its whole
// state.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cache/ids.h"
#include "cache/page_allocator.h"
#include "cache/shape.h"
#include "cache/state_pool.h"

namespace cachalot {

// The last two are those of paged state. c4 entries lie with the full pages.
enum class CachePool : uint8_t { kFull, kSwa, kC128, kC4State, kC128State };
inline constexpr CachePool kCachePools[] = {CachePool::kFull, CachePool::kSwa, CachePool::kC128,
                                            CachePool::kC4State, CachePool::kC128State};
const char* NameOf(CachePool pool);

// Why an allocation did not happen: an outcome to act upon (wait, evict, retract), not an error.
struct Exhausted {
  CachePool pool = CachePool::kFull;
  int64_t need = 0;  // pages
  int64_t have = 0;

  bool operator==(const Exhausted&) const = default;
};
template <typename T>
using Outcome = tl::expected<T, Exhausted>;

// Where the new tokens of a batch go, flat and in batch order. Parts of pools that are not there are
// empty: state in rings has none, it lies with the window pages and with the request slots.
struct OutCacheLoc {
  std::vector<SlotId> full;  // [T]
  std::vector<SlotId> swa;   // [T]; 0 for tokens without window rows
  std::vector<SlotId> c4;    // a row for each position % 4 == 3
  std::vector<SlotId> c128;  // a row for each position % 128 == 127
  // A row for each position that a later step may read the state of (cache.I34).
  std::vector<SlotId> c4_state;
  std::vector<SlotId> c128_state;
};

// Pages that one holder has: a request, or a prefix kept for others. Column i of full and swa is
// for tokens [128 i, 128 i + 128); swa is 0 where the window has gone on. Column i of c128 is for
// entries [i * c128_page_entries, ...).
struct PageSet {
  std::vector<PageId> full;
  std::vector<PageId> swa;
  std::vector<PageId> c128;

  bool operator==(const PageSet&) const = default;
};

// `num_tokens` more tokens for a request. Window rows before the page of `swa_begin` are not given:
// for an empty request whose first tokens have left the window already.
struct Growth {
  RequestSlot slot;
  int64_t num_tokens = 0;
  TokenPos swa_begin{0};
};

class CacheAllocator {
 public:
  explicit CacheAllocator(const CacheGeometry& geometry);

  // A slot with nothing in it, or none when max_requests are running. Its state on the device is to
  // be cleared (CachePools::ClearRequest).
  std::optional<RequestSlot> TakeRequest();
  // Installs a prefix that others hold too, of whole pages, in an empty request; window pages may
  // be missing before the last `window` tokens. `prefix.c128` has the whole c128 pages. Returns the
  // c128 page whose rows the caller copies from the prefix's unfinished one, or 0 where there is
  // none.
  Outcome<PageId> Adopt(RequestSlot slot, const PageSet& prefix);
  // Room for new tokens at the end of each request; the tables are written. Distinct slots.
  Outcome<OutCacheLoc> Extend(std::span<const Growth> batch);
  // One token more for each.
  Outcome<OutCacheLoc> Decode(std::span<const RequestSlot> slots);
  // Gives back the pages wholly beyond `length` tokens: rejected drafts.
  void Trim(RequestSlot slot, int64_t length);
  // Gives back the window pages that no token from position `committed` on can see, and the pages of
  // state that none can read. Returns the number of tokens that have no window rows any more.
  int64_t EvictPast(RequestSlot slot, int64_t committed);
  // The request is over: all that it holds is given back, its slot too.
  void Free(RequestSlot slot);

  // For holders other than requests. A page that is taken has that one holder; a window page is told
  // apart by the full page whose tokens it has, which must have none yet.
  std::optional<PageId> Take(CachePool pool);
  // Of a page that was taken and given nothing.
  void Return(CachePool pool, PageId page);
  void SetWindow(PageId full, PageId swa);
  void Retain(const PageSet& pages);
  void Release(const PageSet& pages);
  void ReleaseWindow(PageId full, PageId swa);

  // Everything is free, whoever held it.
  void Clear();
  // Empty when every page and every request slot is free; else names the pools that lack some.
  std::string LeakReport() const;

  const CacheGeometry& geometry() const { return geometry_; }
  int64_t available_pages(CachePool pool) const;
  int64_t available_requests() const { return slots_.available_pages(); }
  // Tokens that could be stored if one request took them all from a page boundary on.
  int64_t available_tokens() const;
  const PageSet& pages(RequestSlot slot) const { return row(slot).pages; }
  // The pages of a request's state of a ratio, whichever way it is kept, as CompressorParams reads
  // them.
  std::span<const PageId> state_pages(RequestSlot slot, int64_t ratio) const;
  // One ratio's paged state.
  const StatePool& state(int64_t ratio) const { return state_[ratio == 4 ? 0 : 1]; }
  // Tokens that have room, whether or not they have been computed.
  int64_t length(RequestSlot slot) const { return row(slot).length; }
  // The window slot of a token: -1 for -1, 0 where it has none.
  SlotId SwaSlot(SlotId full) const;
  const PageAllocator& allocator(CachePool pool) const;

  bool operator==(const CacheAllocator&) const = default;

 private:
  struct Request {
    bool running = false;
    PageSet pages;
    PageId ring;  // of c128 state
    int64_t length = 0;
    int64_t evicted = 0;  // tokens whose window pages were given back

    bool operator==(const Request&) const = default;
  };
  struct Plan;

  const Request& row(RequestSlot slot) const;
  Request& row(RequestSlot slot);
  PageAllocator& MutableAllocator(CachePool pool);
  Plan PlanOf(std::span<const Growth> batch) const;
  void Install(const Growth& growth, const OutCacheLoc& loc, size_t token, size_t entry);
  void ReleaseSwa(const PageSet& pages, size_t begin, size_t end);

  CacheGeometry geometry_;
  PageAllocator full_;
  PageAllocator swa_;
  PageAllocator c128_;
  std::array<StatePool, 2> state_;  // of ratio 4 and 128
  PageAllocator slots_;             // request slots, as pages of one
  std::vector<PageId> swa_of_;      // [full pages + 1]: the window page of a full page, or 0
  std::vector<Request> requests_;   // [max_requests + 1]
};

// The slot of the last of `length` elements in pages of page_slots, -1 for none.
SlotId LastSlot(std::span<const PageId> pages, int64_t length, int64_t page_slots);

}  // namespace cachalot
