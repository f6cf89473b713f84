#include "cache/step_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cachalot {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CacheGeometry Geometry() {
  return {.max_requests = 4,
          .full_pages = 100,
          .swa_pages = 100,
          .c128_pages = 12,
          .c128_page_entries = 16,
          .has_c4 = true,
          .window = 128};
}

void Grow(CacheAllocator& cache, RequestSlot slot, int64_t num_tokens) {
  const Growth growth{slot, num_tokens, TokenPos(0)};
  ASSERT_TRUE(cache.Extend({&growth, 1}));
}

TEST(StepTables, HasTheNumbersOfExtendDecodeAndVerifyInOneStep) {
  CacheAllocator cache(Geometry());
  const RequestSlot a = *cache.TakeRequest();
  const RequestSlot b = *cache.TakeRequest();
  const RequestSlot c = *cache.TakeRequest();
  Grow(cache, a, 6);    // page 1
  Grow(cache, b, 128);  // page 2
  Grow(cache, c, 140);  // pages 3, 4
  // a: all of a prompt; b: one token that closes a group; c: three that have room, not all of it.
  const StepRequest step[] = {{a, TokenPos(0), 6}, {b, TokenPos(127), 1}, {c, TokenPos(126), 3}};
  const StepTables tables = BuildStepTables(cache, step);
  EXPECT_EQ(tables.num_requests, 3);
  EXPECT_EQ(tables.num_tokens, 10);
  EXPECT_THAT(tables.query_starts, ElementsAre(0, 6, 7, 10));
  EXPECT_THAT(tables.start_pos, ElementsAre(0, 127, 126));
  EXPECT_THAT(tables.positions, ElementsAre(0, 1, 2, 3, 4, 5, 127, 126, 127, 128));
  EXPECT_THAT(tables.window_slots, ElementsAre(128, 129, 130, 131, 132, 133, 2 * 128 + 127,
                                               3 * 128 + 126, 3 * 128 + 127, 4 * 128));
  EXPECT_THAT(tables.c4_slots, ElementsAre(32, 2 * 32 + 31, 3 * 32 + 31));
  EXPECT_THAT(tables.c128_slots, ElementsAre(1 * 16, 2 * 16));
  EXPECT_THAT(tables.window_pages.values, ElementsAre(1, 0, 2, 0, 3, 4));
  EXPECT_THAT(tables.c4_pages.values, ElementsAre(1, 0, 2, 0, 3, 4));
  EXPECT_THAT(tables.c4_state_pages.values, ElementsAre(1, 0, 2, 0, 3, 4));
  EXPECT_THAT(tables.c128_pages.values, ElementsAre(0, 1, 2));
  EXPECT_THAT(tables.c128_state_pages.values, ElementsAre(a.value, b.value, c.value));
  EXPECT_EQ(tables.window_pages.columns, 2);
  EXPECT_EQ(tables.c128_state_pages.columns, 1);
}

TEST(StepTables, IsEmptyForAnIdleStep) {
  const CacheAllocator cache(Geometry());
  const StepTables tables = BuildStepTables(cache, {});
  EXPECT_EQ(tables.num_tokens, 0);
  EXPECT_THAT(tables.query_starts, ElementsAre(0));
  EXPECT_THAT(tables.positions, IsEmpty());
  EXPECT_THAT(tables.window_pages.values, IsEmpty());
  EXPECT_EQ(tables.window_pages.columns, 1);
}

TEST(StepTables, HasZeroColumnsWhereTheModelHasNoSuchLayers) {
  CacheGeometry geometry = Geometry();
  geometry.has_c4 = false;
  geometry.c128_pages = 0;
  CacheAllocator cache(geometry);
  const RequestSlot slot = *cache.TakeRequest();
  Grow(cache, slot, 300);
  const StepRequest step{slot, TokenPos(0), 300};
  const StepTables tables = BuildStepTables(cache, {&step, 1});
  EXPECT_THAT(tables.c4_slots, IsEmpty());
  EXPECT_THAT(tables.c128_slots, IsEmpty());
  EXPECT_THAT(tables.c4_pages.values, ElementsAre(0));
  EXPECT_THAT(tables.c128_pages.values, ElementsAre(0));
  EXPECT_EQ(tables.window_pages.columns, 3);
}

TEST(StepTables, HasZerosBeforeTheWindowAndNothingOfAFormerTenant) {
  CacheAllocator cache(Geometry());
  const RequestSlot first = *cache.TakeRequest();
  Grow(cache, first, 2000);
  cache.Free(first);
  for (int i = 0; i < 3; ++i) {
    cache.TakeRequest();
  }
  const RequestSlot slot = *cache.TakeRequest();
  ASSERT_EQ(slot, first);
  Grow(cache, slot, 600);
  cache.EvictPast(slot, 600);
  Grow(cache, slot, 1);
  const StepRequest step{slot, TokenPos(600), 1};
  const StepTables tables = BuildStepTables(cache, {&step, 1});
  const auto& swa = cache.pages(slot).swa;
  EXPECT_THAT(tables.window_pages.values, ElementsAre(0, 0, 0, swa[3].value, swa[4].value));
  EXPECT_EQ(tables.c4_state_pages.values, tables.window_pages.values);
  EXPECT_EQ(tables.c4_pages.columns, 5);
  EXPECT_EQ(tables.c128_pages.columns, 1);
}

TEST(StepTables, HasZerosBeforeTheTailOfPagedState) {
  CacheGeometry geometry = Geometry();
  geometry.max_requests = 1;
  geometry.c4_state_pages = 4;
  geometry.c128_state_pages = 4;
  CacheAllocator cache(geometry);
  RequestSlot slot = *cache.TakeRequest();
  Grow(cache, slot, 300);
  for (int i = 0; i < 100; ++i) {
    Grow(cache, slot, 1);
  }
  cache.Free(slot);
  slot = *cache.TakeRequest();
  Grow(cache, slot, 601);
  const StepRequest prompt{slot, TokenPos(0), 601};
  const StepTables tables = BuildStepTables(cache, {&prompt, 1});
  const int32_t c4 = cache.state_pages(slot, 4)[4].value;
  const int32_t c128 = cache.state_pages(slot, 128)[4].value;
  EXPECT_GT(c4, 0);
  EXPECT_GT(c128, 0);
  EXPECT_THAT(tables.c4_state_pages.values, ElementsAre(0, 0, 0, 0, c4));
  EXPECT_THAT(tables.c128_state_pages.values, ElementsAre(0, 0, 0, 0, c128));
  cache.EvictPast(slot, 601);
  Grow(cache, slot, 1);
  const StepRequest next{slot, TokenPos(601), 1};
  EXPECT_EQ(BuildStepTables(cache, {&next, 1}).c4_state_pages.values, tables.c4_state_pages.values);
}

TEST(StepTables, AddressTheSameEntriesWhicheverWayStateIsKept) {
  CacheGeometry geometry = Geometry();
  std::vector<StepTables> tables;
  for (const bool paged : {false, true}) {
    geometry.c4_state_pages = paged ? 20 : 0;
    geometry.c128_state_pages = paged ? 20 : 0;
    CacheAllocator cache(geometry);
    const RequestSlot a = *cache.TakeRequest();
    const RequestSlot b = *cache.TakeRequest();
    for (const int64_t n : {130, 1, 700, 3, 1}) {
      Grow(cache, a, n);
      Grow(cache, b, n / 2 + 1);
    }
    const StepRequest step[] = {{a, TokenPos(831), 4}, {b, TokenPos(420), 1}};
    tables.push_back(BuildStepTables(cache, step));
  }
  EXPECT_EQ(tables[0].c4_slots, tables[1].c4_slots);
  EXPECT_EQ(tables[0].c128_slots, tables[1].c128_slots);
  EXPECT_EQ(tables[0].c4_pages.values, tables[1].c4_pages.values);
  EXPECT_EQ(tables[0].c128_pages.values, tables[1].c128_pages.values);
  EXPECT_EQ(tables[0].window_pages.values, tables[1].window_pages.values);
  EXPECT_EQ(tables[0].window_slots, tables[1].window_slots);
}

TEST(StepTablesDeathTest, RefusesTokensWithoutRoomAndWindowsThatAreGone) {
  CacheAllocator cache(Geometry());
  const RequestSlot slot = *cache.TakeRequest();
  Grow(cache, slot, 600);
  const StepRequest beyond{slot, TokenPos(600), 1};
  EXPECT_DEATH(BuildStepTables(cache, {&beyond, 1}), "601 against 600");
  cache.EvictPast(slot, 600);
  const StepRequest before{slot, TokenPos(500), 1};
  EXPECT_DEATH(BuildStepTables(cache, {&before, 1}), "element 373 of a request has no page");
}

}  // namespace
}  // namespace cachalot
