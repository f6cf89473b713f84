#include "cache/page_allocator.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>

namespace cachalot {
namespace {

std::vector<SlotId> Slots(std::initializer_list<int32_t> values) {
  return std::vector<SlotId>(values.begin(), values.end());
}

std::vector<PageId> Pages(std::initializer_list<int32_t> values) {
  return std::vector<PageId>(values.begin(), values.end());
}

std::vector<SlotId> Extend(PageAllocator& pages, Extension extension) {
  return pages.AllocExtend({&extension, 1}).value();
}

TEST(PageAllocator, FillsTheLastPageThenWholePagesThenTheHeadOfOneMore) {
  PageAllocator pages(5, 4);
  EXPECT_EQ(Extend(pages, {0, 2, SlotId(-1)}), Slots({4, 5}));
  EXPECT_EQ(Extend(pages, {2, 9, SlotId(5)}), Slots({6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(pages.available_pages(), 2);
}

TEST(PageAllocator, TakesAPageForDecodeOnlyWhereTheOneBeforeIsFull) {
  PageAllocator pages(2, 4);
  int64_t length = 0;
  SlotId last(-1);
  for (int32_t i = 0; i < 8; ++i) {
    ++length;
    last = pages.AllocDecode({&length, 1}, {&last, 1}).value().front();
    EXPECT_EQ(last.value, 4 + i);
    EXPECT_EQ(pages.available_pages(), length <= 4 ? 1 : 0);
  }
  ++length;
  EXPECT_FALSE(pages.AllocDecode({&length, 1}, {&last, 1}));
}

TEST(PageAllocator, ChangesNothingWhenPagesAreShort) {
  PageAllocator pages(3, 4);
  const auto first = Extend(pages, {0, 8, SlotId(-1)});
  pages.Free({first.data(), 4});
  const PageAllocator before = pages;
  const Extension batch[] = {{0, 4, SlotId(-1)}, {8, 20, SlotId(11)}};
  EXPECT_FALSE(pages.AllocExtend(batch));
  EXPECT_EQ(pages, before);
  EXPECT_TRUE(pages.AllocExtend({batch, 1}));
}

TEST(PageAllocator, GivesReleasedPagesInRisingOrderOnceTheFirstOnesAreUsedUp) {
  PageAllocator pages(4, 1);
  Extend(pages, {0, 4, SlotId(-1)});
  pages.Release(Pages({3}));
  pages.Release(Pages({1, 2}));
  EXPECT_EQ(Extend(pages, {0, 3, SlotId(-1)}), Slots({1, 2, 3}));
}

TEST(PageAllocator, CountsEveryRetainAndFreesWithTheLastHolder) {
  PageAllocator pages(3, 4);
  Extend(pages, {0, 8, SlotId(-1)});
  pages.Retain(Pages({1, 1, 2, 0, -1}));
  EXPECT_EQ(pages.holders(PageId(1)), 3);
  EXPECT_EQ(pages.holders(PageId(0)), 0);
  EXPECT_TRUE(pages.Release(Pages({2, 1, 0, -1})).empty());
  EXPECT_EQ(pages.Release(Pages({2, 1})), Pages({2}));
  EXPECT_EQ(pages.Release(Pages({1})), Pages({1}));
  EXPECT_EQ(pages.available_pages(), 3);
}

TEST(PageAllocator, ReachesTheLastSlotOf31Bits) {
  // One page of half the range, so that the ids are extreme and the table small.
  const int64_t page_slots = int64_t{1} << 30;
  PageAllocator pages(1, page_slots);
  const SlotId last(std::numeric_limits<int32_t>::max() - 1);
  const Extension one{page_slots - 1, page_slots, last};
  EXPECT_EQ(pages.AllocExtend({&one, 1}).value().front().value,
            std::numeric_limits<int32_t>::max());
}

TEST(PageAllocatorDeathTest, RefusesDoubleFreesAndBrokenSequences) {
  PageAllocator pages(3, 4);
  Extend(pages, {0, 4, SlotId(-1)});
  EXPECT_DEATH(pages.Release(Pages({1, 1})), "released twice");
  pages.Release(Pages({1}));
  EXPECT_DEATH(pages.Release(Pages({1})), "released but free");
  EXPECT_DEATH(pages.Retain(Pages({1})), "retained but free");
  EXPECT_DEATH(pages.Release(Pages({4})), "4 against 3");
  EXPECT_DEATH(Extend(pages, {2, 3, SlotId(4)}), "1 against 2");
  EXPECT_DEATH(Extend(pages, {3, 2, SlotId(6)}), "3 against 2");
}

// Against a model that knows only sets: which slots each sequence has, which pages are free.
TEST(PageAllocator, AgreesWithANaiveModelOverRandomOperations) {
  std::mt19937_64 random(7);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (const int64_t page_slots : {1, 4, 16, 128}) {
    const int64_t num_pages = 40;
    PageAllocator pages(num_pages, page_slots);
    std::map<int64_t, std::vector<SlotId>> sequences;
    std::set<int32_t> used;
    int64_t next = 0;
    for (int64_t round = 0; round < 4000; ++round) {
      if (below(4) == 0 && !sequences.empty()) {
        auto victim = sequences.begin();
        std::advance(victim, below(static_cast<int64_t>(sequences.size())));
        for (const SlotId slot : victim->second) {
          used.erase(slot.value);
        }
        pages.Free(victim->second);
        sequences.erase(victim);
        continue;
      }
      if (below(3) == 0) {
        sequences[next++];
      }
      std::vector<Extension> batch;
      std::vector<std::vector<SlotId>*> grown;
      int64_t need = 0;
      for (auto& [id, slots] : sequences) {
        if (below(2) == 0) {
          const auto prefix = static_cast<int64_t>(slots.size());
          const int64_t seq = prefix + below(2 * page_slots + 2);
          for (int64_t i = prefix; i < seq; ++i) {
            need += i % page_slots == 0;
          }
          batch.push_back({prefix, seq, slots.empty() ? SlotId(-1) : slots.back()});
          grown.push_back(&slots);
        }
      }
      const int64_t free = pages.available_pages();
      const PageAllocator before = pages;
      const auto taken = pages.AllocExtend(batch);
      ASSERT_EQ(taken.has_value(), need <= free);
      if (!taken) {
        ASSERT_EQ(pages, before);
        continue;
      }
      size_t at = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        for (int64_t j = batch[i].prefix; j < batch[i].seq; ++j, ++at) {
          const SlotId slot = (*taken)[at];
          ASSERT_GE(slot.value, page_slots);
          ASSERT_LT(slot.value, (num_pages + 1) * page_slots);
          ASSERT_TRUE(used.insert(slot.value).second);
          ASSERT_EQ(slot.value % page_slots, j % page_slots);
          if (j % page_slots != 0) {
            ASSERT_EQ(slot.value, grown[i]->back().value + 1);
          }
          grown[i]->push_back(slot);
        }
      }
      ASSERT_EQ(at, taken->size());
      std::set<int64_t> used_pages;
      for (const int32_t slot : used) {
        used_pages.insert(slot / page_slots);
      }
      ASSERT_EQ(pages.available_pages() + static_cast<int64_t>(used_pages.size()), num_pages);
    }
  }
}

}  // namespace
}  // namespace cachalot
