#include "cache/page_allocator.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace cachalot {
namespace {

// Slot ids are int32.
constexpr int64_t kSlotLimit = int64_t{std::numeric_limits<int32_t>::max()} + 1;

}  // namespace

PageAllocator::PageAllocator(int64_t num_pages, int64_t page_slots) : page_slots_(page_slots) {
  CACHALOT_CHECK_GE(num_pages, 0);
  CACHALOT_CHECK_GT(page_slots, 0);
  CACHALOT_CHECK_LE(num_pages, kSlotLimit / page_slots - 1);
  holders_.resize(static_cast<size_t>(num_pages) + 1);
  Clear();
}

void PageAllocator::Clear() {
  std::fill(holders_.begin(), holders_.end(), 0);
  released_.clear();
  free_.clear();
  for (int32_t page = 1; page < static_cast<int32_t>(holders_.size()); ++page) {
    free_.push_back(PageId(page));
  }
}

int64_t PageAllocator::PagesNeeded(std::span<const Extension> batch) const {
  int64_t need = 0;
  for (const Extension& extension : batch) {
    CACHALOT_CHECK_GE(extension.prefix, 0);
    CACHALOT_CHECK_LE(extension.prefix, extension.seq);
    CACHALOT_CHECK_EQ((int64_t{extension.last.value} + 1) % page_slots_,
                      extension.prefix % page_slots_);
    need += CeilDiv(extension.seq, page_slots_) - CeilDiv(extension.prefix, page_slots_);
  }
  return need;
}

std::optional<std::vector<SlotId>> PageAllocator::AllocExtend(std::span<const Extension> batch) {
  if (PagesNeeded(batch) > available_pages()) {
    return std::nullopt;
  }
  std::vector<SlotId> slots;
  for (const Extension& extension : batch) {
    int64_t slot = extension.last.value;
    for (int64_t i = extension.prefix; i < extension.seq; ++i) {
      slot = i % page_slots_ == 0 ? TakePage().value * page_slots_ : slot + 1;
      slots.push_back(SlotId(static_cast<int32_t>(slot)));
    }
  }
  return slots;
}

std::optional<std::vector<SlotId>> PageAllocator::AllocDecode(std::span<const int64_t> seq,
                                                              std::span<const SlotId> last) {
  CACHALOT_CHECK_EQ(seq.size(), last.size());
  std::vector<Extension> batch;
  for (size_t i = 0; i < seq.size(); ++i) {
    batch.push_back({seq[i] - 1, seq[i], last[i]});
  }
  return AllocExtend(batch);
}

PageId PageAllocator::TakePage() {
  if (free_.empty()) {
    std::sort(released_.begin(), released_.end());
    free_.assign(released_.begin(), released_.end());
    released_.clear();
  }
  CACHALOT_CHECK(!free_.empty(), "no page left of {}", num_pages());
  const PageId page = free_.front();
  free_.pop_front();
  holders_[static_cast<size_t>(page.value)] = 1;
  return page;
}

void PageAllocator::Retain(std::span<const PageId> pages) {
  for (const PageId page : pages) {
    if (page.value > 0) {
      CACHALOT_CHECK(holders(page) > 0, "page {} is retained but free", page);
      ++holders_[static_cast<size_t>(page.value)];
    }
  }
}

std::vector<PageId> PageAllocator::Release(std::span<const PageId> pages) {
  std::vector<PageId> sorted(pages.begin(), pages.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(sorted.begin(), std::upper_bound(sorted.begin(), sorted.end(), PageId(0)));
  CACHALOT_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                 "a page is released twice at once");
  std::vector<PageId> freed;
  for (const PageId page : sorted) {
    CACHALOT_CHECK(holders(page) > 0, "page {} is released but free", page);
    if (--holders_[static_cast<size_t>(page.value)] == 0) {
      freed.push_back(page);
    }
  }
  released_.insert(released_.end(), freed.begin(), freed.end());
  return freed;
}

void PageAllocator::Free(std::span<const SlotId> slots) {
  std::vector<PageId> pages;
  for (const SlotId slot : slots) {
    pages.push_back(PageId(static_cast<int32_t>(slot.value / page_slots_)));
  }
  std::sort(pages.begin(), pages.end());
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  Release(pages);
}

int64_t PageAllocator::holders(PageId page) const {
  CACHALOT_CHECK_GE(page.value, 0);
  CACHALOT_CHECK_LE(int64_t{page.value}, num_pages());
  return holders_[static_cast<size_t>(page.value)];
}

}  // namespace cachalot
