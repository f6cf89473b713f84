// Long random lives of many requests: whatever happens, no two holders share what they must not,
// every page is accounted for, and the end is as the beginning.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

#include "cache/cache_allocator.h"
#include "cache/capacity.h"
#include "cache/paged_state.h"
#include "cache/step_tables.h"

namespace cachalot {
namespace {

struct Live {
  int64_t length = 0;
  int64_t committed = 0;     // tokens that no trim takes back
  std::vector<SlotId> full;  // per token, as the bundles had them
  std::vector<SlotId> swa;
  std::vector<SlotId> c4;
  std::vector<SlotId> c128;
  std::array<std::map<int64_t, SlotId>, 2> state;  // of ratio 4 and 128, by position
};

constexpr std::array<int64_t, 2> kRatios = {4, 128};

// Whether a position keeps its state where the tokens [begin, end) have come in one step.
bool KeepsState(int64_t ratio, int64_t position, int64_t begin, int64_t end) {
  const int64_t in_page = end % 128;
  const int64_t tail = ratio == 4 && in_page <= 3 && end >= 128 ? in_page + 128 : in_page;
  const bool in_begun_page = begin % 128 != 0 && position / 128 == begin / 128;
  return in_begun_page || position >= end - tail;
}

// Growth that may be rejected as a whole; what is longer is a prompt, which is there for good.
constexpr int64_t kWidestDraft = 65;

// Pages of all requests, no prefix being shared, are distinct and make up what is not free.
void CheckAccounts(const CacheAllocator& cache, const std::map<RequestSlot, Live>& lives) {
  std::set<PageId> full;
  std::set<PageId> swa;
  std::set<PageId> c128;
  for (const auto& [slot, live] : lives) {
    const PageSet& pages = cache.pages(slot);
    for (const PageId page : pages.full) {
      ASSERT_GT(page.value, 0);
      ASSERT_TRUE(full.insert(page).second);
    }
    for (size_t i = 0; i < pages.swa.size(); ++i) {
      if (pages.swa[i].value > 0) {
        ASSERT_TRUE(swa.insert(pages.swa[i]).second);
      }
      // The map agrees with the table.
      ASSERT_EQ(
          cache.SwaSlot(SlotId(static_cast<int32_t>(pages.full[i].value * kPageTokens))).value,
          pages.swa[i].value * kPageTokens);
    }
    for (const PageId page : pages.c128) {
      ASSERT_GT(page.value, 0);
      ASSERT_TRUE(c128.insert(page).second);
    }
  }
  for (size_t i = 0; i < kRatios.size(); ++i) {
    std::set<int32_t> state;
    for (const auto& [slot, live] : lives) {
      // One row of each page.
      const std::map<int64_t, SlotId>& rows = live.state[i];
      for (auto row = rows.begin(); row != rows.end();
           row = rows.lower_bound(RoundUpTo(row->first + 1, kPageTokens))) {
        ASSERT_GE(row->second.value, kPageTokens);
        ASSERT_TRUE(state.insert(row->second.value / static_cast<int32_t>(kPageTokens)).second);
      }
    }
    const PageAllocator& pages = cache.state(kRatios[i]).allocator();
    ASSERT_EQ(pages.available_pages() + static_cast<int64_t>(state.size()), pages.num_pages());
  }
  const CacheGeometry& geometry = cache.geometry();
  ASSERT_EQ(cache.available_pages(CachePool::kFull) + static_cast<int64_t>(full.size()),
            geometry.full_pages);
  ASSERT_EQ(cache.available_pages(CachePool::kSwa) + static_cast<int64_t>(swa.size()),
            geometry.swa_pages);
  ASSERT_EQ(cache.available_pages(CachePool::kC128) + static_cast<int64_t>(c128.size()),
            geometry.c128_pages);
}

class Workload {
 public:
  Workload(const CacheGeometry& geometry, uint64_t seed) : cache_(geometry), random_(seed) {}

  void Step() {
    switch (Below(10)) {
      case 0:
        return Admit();
      case 1:
      case 2:
        return Grow(1 + Below(3), 1 + Below(700));
      case 3:
        return TrimOne();
      case 4:
        return EvictOne();
      case 5:
        return Below(4) == 0 ? FreeOne() : CheckTables();
      default:
        return Grow(static_cast<int64_t>(lives_.size()), 1);
    }
  }

  void CheckAll() { CheckAccounts(cache_, lives_); }

  void Finish() {
    while (!lives_.empty()) {
      FreeOne();
    }
    EXPECT_EQ(cache_.LeakReport(), "");
    EXPECT_GT(refused_, 0);
    EXPECT_GT(granted_, 1000);
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  std::map<RequestSlot, Live>::iterator Any() {
    auto it = lives_.begin();
    std::advance(it, Below(static_cast<int64_t>(lives_.size())));
    return it;
  }

  void Admit() {
    const bool room = cache_.available_requests() > 0;
    const auto slot = cache_.TakeRequest();
    ASSERT_EQ(slot.has_value(), room);
    if (slot) {
      ASSERT_TRUE(lives_.try_emplace(*slot).second);
    }
  }

  void Grow(int64_t max_requests, int64_t num_tokens) {
    std::vector<Growth> batch;
    for (const auto& [slot, live] : lives_) {
      if (static_cast<int64_t>(batch.size()) < max_requests) {
        batch.push_back({slot, num_tokens, TokenPos(0)});
      }
    }
    const CacheAllocator before = cache_;
    const auto loc = cache_.Extend(batch);
    if (!loc) {
      ++refused_;
      ASSERT_EQ(cache_, before);
      return;
    }
    ++granted_;
    // Split by the counts that each request alone implies: every part ends exactly.
    auto full = loc->full.begin();
    auto swa = loc->swa.begin();
    auto c4 = loc->c4.begin();
    auto c128 = loc->c128.begin();
    auto c4_state = loc->c4_state.begin();
    auto c128_state = loc->c128_state.begin();
    for (const Growth& growth : batch) {
      Live& live = lives_[growth.slot];
      const int64_t end = live.length + num_tokens;
      for (int64_t p = live.length; p < end && cache_.geometry().has_paged_state(); ++p) {
        if (KeepsState(4, p, live.length, end)) {
          live.state[0][p] = *c4_state++;
        }
        if (KeepsState(128, p, live.length, end)) {
          live.state[1][p] = *c128_state++;
        }
      }
      for (int64_t i = 0; i < num_tokens; ++i) {
        live.full.push_back(*full++);
        live.swa.push_back(*swa++);
        ++live.length;
        if (live.length % 4 == 0) {
          live.c4.push_back(*c4++);
        }
        if (live.length % 128 == 0) {
          live.c128.push_back(*c128++);
        }
      }
      ASSERT_EQ(cache_.length(growth.slot), live.length);
      if (num_tokens > kWidestDraft && cache_.geometry().has_paged_state()) {
        live.committed = live.length;
      }
    }
    ASSERT_TRUE(c4_state == loc->c4_state.end() && c128_state == loc->c128_state.end());
    ASSERT_TRUE(full == loc->full.end() && swa == loc->swa.end());
    ASSERT_TRUE(c4 == loc->c4.end() && c128 == loc->c128.end());
  }

  void TrimOne() {
    if (lives_.empty()) {
      return;
    }
    const auto it = Any();
    Live& live = it->second;
    const int64_t length = std::max(live.length - Below(20), live.committed);
    cache_.Trim(it->first, length);
    live.length = length;
    const auto size = static_cast<size_t>(length);
    live.full.resize(size);
    live.swa.resize(size);
    live.c4.resize(size / 4);
    live.c128.resize(size / 128);
    for (auto& state : live.state) {
      state.erase(state.lower_bound(length), state.end());
    }
  }

  void EvictOne() {
    if (!lives_.empty()) {
      const auto it = Any();
      Live& live = it->second;
      live.committed = std::max(live.committed, live.length - Below(20));
      cache_.EvictPast(it->first, live.committed);
      live.state[0].erase(live.state[0].begin(),
                          live.state[0].lower_bound((live.committed - 24) / 128 * 128));
      live.state[1].erase(live.state[1].begin(),
                          live.state[1].lower_bound((live.committed - 192) / 128 * 128));
    }
  }

  void FreeOne() {
    if (!lives_.empty()) {
      const auto it = Any();
      cache_.Free(it->first);
      lives_.erase(it);
    }
  }

  // A step over the last uncommitted tokens of all requests reads exactly what the bundles
  // promised.
  void CheckTables() {
    std::vector<StepRequest> step;
    std::vector<int32_t> window;
    std::vector<int32_t> c4;
    std::vector<int32_t> c128;
    for (const auto& [slot, live] : lives_) {
      const int64_t begin = std::max(live.committed, live.length - 5);
      step.push_back({slot, TokenPos(static_cast<int32_t>(begin)), live.length - begin});
      for (int64_t i = begin; i < live.length; ++i) {
        window.push_back(live.swa[static_cast<size_t>(i)].value);
      }
      for (int64_t e = begin / 4; e < live.length / 4; ++e) {
        c4.push_back(live.c4[static_cast<size_t>(e)].value);
      }
      for (int64_t e = begin / 128; e < live.length / 128; ++e) {
        c128.push_back(live.c128[static_cast<size_t>(e)].value);
      }
    }
    const StepTables tables = BuildStepTables(cache_, step);
    ASSERT_EQ(tables.window_slots, window);
    ASSERT_EQ(tables.c4_slots, c4);
    ASSERT_EQ(tables.c128_slots, c128);
    for (const auto* slots : {&tables.window_slots, &tables.c4_slots, &tables.c128_slots}) {
      for (const int32_t slot : *slots) {
        ASSERT_GE(slot, 16);  // no row of page 0, whatever the page
      }
    }
    // Entries that tokens can see are addressed through the page tables as they were given.
    int64_t row = 0;
    for (const auto& [slot, live] : lives_) {
      for (size_t e = 0; e < live.c4.size(); ++e) {
        const auto entry = static_cast<int64_t>(e);
        ASSERT_EQ(tables.c4_pages.at(row, entry / 32) * 32 + entry % 32, live.c4[e].value);
      }
      for (size_t e = 0; e < live.c128.size(); ++e) {
        const auto entry = static_cast<int64_t>(e);
        ASSERT_EQ(tables.c128_pages.at(row, entry / 16) * 16 + entry % 16, live.c128[e].value);
      }
      if (cache_.geometry().has_paged_state()) {
        CheckStateTable(tables.c4_state_pages, row, live.state[0], live.length);
        CheckStateTable(tables.c128_state_pages, row, live.state[1], live.length);
      }
      ++row;
    }
  }

  static void CheckStateTable(const PageTable& table, int64_t row,
                              const std::map<int64_t, SlotId>& state, int64_t length) {
    for (int64_t page = 0; page < table.columns; ++page) {
      const bool held = page * 128 < length && state.contains(page * 128);
      ASSERT_EQ(table.at(row, page) > 0, held) << "column " << page;
    }
    for (const auto& [position, slot] : state) {
      ASSERT_EQ(table.at(row, position / 128) * 128 + position % 128, slot.value);
    }
  }

  CacheAllocator cache_;
  std::mt19937_64 random_;
  std::map<RequestSlot, Live> lives_;
  int refused_ = 0;
  int granted_ = 0;
};

TEST(CacheAllocatorProperty, IsFullAgainAfterTenThousandRandomOperations) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const bool paged = seed > 2;
    Workload workload({.max_requests = 6,
                       .full_pages = 80,
                       .swa_pages = 60,
                       .c128_pages = 9,
                       .c128_page_entries = 16,
                       .has_c4 = true,
                       .c4_state_pages = paged ? 14 : 0,
                       .c128_state_pages = paged ? 17 : 0,
                       .window = 128},
                      seed);
    for (int i = 0; i < 10000; ++i) {
      workload.Step();
      workload.CheckAll();
      if (testing::Test::HasFatalFailure()) {
        FAIL() << "seed " << seed << ", operation " << i;
      }
    }
    workload.Finish();
  }
}

TEST(CacheAllocatorProperty, NeverLacksWindowPagesWithinTheStepsPlannedFor) {
  std::mt19937_64 random(11);
  CacheShape shape;
  for (const int64_t window : {1, 100, 128, 200, 256}) {
    shape.window = window;
    const int64_t step_tokens = 300;
    CacheGeometry geometry = {.max_requests = 5, .full_pages = 5000, .window = window};
    geometry.swa_pages = WindowTokensFor(shape, geometry.max_requests, step_tokens) / kPageTokens;
    CacheAllocator cache(geometry);
    std::vector<RequestSlot> slots;
    while (const auto slot = cache.TakeRequest()) {
      slots.push_back(*slot);
    }
    for (int i = 0; i < 1000; ++i) {
      std::vector<Growth> batch;
      auto left = static_cast<uint64_t>(step_tokens);
      for (const RequestSlot slot : slots) {
        const uint64_t n = random() % 3 == 0 ? random() % (left + 1) : std::min<uint64_t>(left, 1);
        batch.push_back({slot, static_cast<int64_t>(n), TokenPos(0)});
        left -= n;
      }
      ASSERT_TRUE(cache.Extend(batch));
      for (const RequestSlot slot : slots) {
        cache.EvictPast(slot, cache.length(slot));
      }
    }
  }
}

// cache.I36, in steps that begin and end anywhere.
TEST(CacheAllocatorProperty, NeverLacksStatePagesWithinTheStepsPlannedFor) {
  std::mt19937_64 random(12);
  for (const int64_t step_tokens : {1, 100, 300, 1000}) {
    CacheGeometry geometry = {.max_requests = 5, .full_pages = 9000, .swa_pages = 9000};
    geometry.c4_state_pages = PagedStatePages(4, geometry.max_requests, step_tokens);
    geometry.c128_state_pages = PagedStatePages(128, geometry.max_requests, step_tokens);
    CacheAllocator cache(geometry);
    std::vector<RequestSlot> slots;
    while (const auto slot = cache.TakeRequest()) {
      slots.push_back(*slot);
    }
    for (int i = 0; i < 1000; ++i) {
      std::vector<Growth> batch;
      std::vector<StepRequest> step;
      auto left = static_cast<uint64_t>(step_tokens);
      for (const RequestSlot slot : slots) {
        const uint64_t n = random() % 3 == 0 ? random() % (left + 1) : std::min<uint64_t>(left, 1);
        batch.push_back({slot, static_cast<int64_t>(n), TokenPos(0)});
        step.push_back(
            {slot, TokenPos(static_cast<int32_t>(cache.length(slot))), batch.back().num_tokens});
        left -= n;
      }
      const auto grown = cache.Extend(batch);
      ASSERT_TRUE(grown) << NameOf(grown.error().pool) << " of " << step_tokens;
      BuildStepTables(cache, step);  // checks what is read
      for (const RequestSlot slot : slots) {
        cache.EvictPast(slot, cache.length(slot));
      }
    }
  }
}

}  // namespace
}  // namespace cachalot
