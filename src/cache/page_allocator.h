// PageAllocator: which pages of one pool are free, and how many holders the others have. Metadata
// only: no memory, no device, no threads. A copy is a backup of its whole state.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "cache/ids.h"

namespace cachalot {

// Growth of one sequence of slots from `prefix` to `seq` of them. `last` is the slot of the
// prefix's last element, -1 for an empty prefix; (last + 1) % page_slots == prefix % page_slots.
struct Extension {
  int64_t prefix = 0;
  int64_t seq = 0;
  SlotId last{-1};
};

class PageAllocator {
 public:
  // Pages 1 ... num_pages of page_slots slots each. No pages: nothing can ever be taken.
  PageAllocator(int64_t num_pages, int64_t page_slots);

  int64_t PagesNeeded(std::span<const Extension> batch) const;

  // New slots of all extensions, in batch order: each first fills the page of its `last`, then
  // opens pages, which have one holder from then on. Nothing when the pages do not suffice, and
  // then nothing has changed.
  std::optional<std::vector<SlotId>> AllocExtend(std::span<const Extension> batch);
  // One more slot each, up to seq[i]: a page is taken where seq[i] % page_slots is the first.
  std::optional<std::vector<SlotId>> AllocDecode(std::span<const int64_t> seq,
                                                 std::span<const SlotId> last);

  // One more holder for each occurrence of a page; ids <= 0 are passed over.
  void Retain(std::span<const PageId> pages);
  // One holder less for each page; those without any become free and are returned. The pages are
  // distinct; ids <= 0 are passed over.
  std::vector<PageId> Release(std::span<const PageId> pages);
  // Releases the set of pages that these slots lie in.
  void Free(std::span<const SlotId> slots);
  // All pages are free again, whoever held them.
  void Clear();

  int64_t num_pages() const { return static_cast<int64_t>(holders_.size()) - 1; }
  int64_t available_pages() const { return static_cast<int64_t>(free_.size() + released_.size()); }
  int64_t page_slots() const { return page_slots_; }
  int64_t holders(PageId page) const;

  bool operator==(const PageAllocator&) const = default;

 private:
  PageId TakePage();

  int64_t page_slots_;
  std::deque<PageId> free_;
  std::vector<PageId> released_;  // joins free_ when that runs out, all in rising order
  std::vector<int32_t> holders_;  // [num_pages + 1]; 0 where the page is free
};

}  // namespace cachalot
