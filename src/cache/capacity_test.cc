#include "cache/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cachalot {
namespace {

CacheShape Shape() {
  CacheShape shape;
  shape.ratios = {0, 4, 128, 4, 0, 128};
  shape.head_dim = 512;
  shape.rope_dim = 64;
  shape.index_head_dim = 128;
  return shape;
}

CacheRows Rows() {
  return {{RowFormat::kBf16, RowRounding::kFp8, 512, 64},
          {RowFormat::kInt8, RowRounding::kInt8, 128, 0}};
}

TEST(Capacity, CountsPageZeroAndTheRealRowBytes) {
  const CachePlan plan = PlanForTokens(Shape(), Rows(), {}, 1024, 512).value();
  EXPECT_EQ(plan.geometry.full_pages, 8);
  EXPECT_EQ(plan.geometry.swa_pages, 4);
  EXPECT_EQ(plan.c4.rows, 9 * 32);
  EXPECT_EQ(plan.window.rows, 5 * 128);
  EXPECT_EQ(plan.window.row_bytes, 1024);
  EXPECT_EQ(plan.index.row_bytes, 130);
  EXPECT_EQ(plan.c4_state.row_bytes, 8192);
  EXPECT_EQ(plan.index_state.row_bytes, 2048);
  EXPECT_EQ(plan.c128_state.row_bytes, 4096);
  EXPECT_EQ(plan.window.buffers, 6);
  EXPECT_EQ(plan.c4.buffers, 2);
  EXPECT_EQ(plan.c128.buffers, 2);
}

TEST(Capacity, ChargesEveryDraftLayer) {
  CacheShape shape = Shape();
  const int64_t without = PlanForTokens(shape, Rows(), {}, 1024, 512).value().bytes();
  shape.num_draft_layers = 3;
  const CachePlan plan = PlanForTokens(shape, Rows(), {}, 1024, 512).value();
  EXPECT_EQ(plan.bytes() - without, 3 * 5 * 128 * 1024);
}

TEST(Capacity, HasRoomInC128PagesForWhateverTheFullPagesHold) {
  for (const int64_t full_pages : {1, 15, 16, 17, 100, 257}) {
    for (const int64_t requests : {1, 2, 5}) {
      const CachePlan plan =
          PlanForTokens(Shape(), Rows(), {.max_requests = requests}, full_pages * 128, 128).value();
      EXPECT_EQ(plan.geometry.c128_pages, (full_pages + 3) / 4 + requests);
      // The most pages are begun where all requests but one have just begun theirs.
      for (int64_t begun = 1; requests * begun <= full_pages; begun += 16) {
        const int64_t rest = full_pages - (requests - 1) * begun;
        EXPECT_LE((requests - 1) * CeilDiv(begun, 16) + CeilDiv(rest, 16),
                  plan.geometry.c128_pages);
      }
    }
  }
}

TEST(Capacity, HoldsTheMostThatTheBytesAllow) {
  for (const int64_t bytes : {20'000'000, 123'456'789, 2'000'000'000}) {
    for (const double share : {0.1, 0.5, 1.0}) {
      const auto plan =
          PlanForBytes(Shape(), Rows(), {.max_requests = 2, .step_tokens = 256}, bytes, share);
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_LE(plan->bytes(), bytes);
      const int64_t more = plan->geometry.full_pages + 1;
      const auto swa = static_cast<int64_t>(static_cast<double>(more) * share + 0.999);
      const auto larger = PlanForTokens(Shape(), Rows(), {.max_requests = 2}, more * 128,
                                        std::max(swa, plan->geometry.swa_pages) * 128);
      EXPECT_GT(larger->bytes(), bytes);
      EXPECT_GE(plan->geometry.swa_pages,
                std::min(plan->geometry.full_pages, WindowTokensFor(Shape(), 2, 256) / 128));
    }
  }
}

TEST(Capacity, SaysHowMuchIsMissing) {
  const auto plan = PlanForBytes(Shape(), Rows(), {}, 1000, 0.5);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("1000 bytes do not hold one page"));
}

TEST(Capacity, RefusesAbsurdNumbers) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {}, 0, 128));
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {}, 128, -1));
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {}, huge, 128));
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {}, 128, huge));
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {}, int64_t{1} << 31, 128));
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {.max_requests = 0}, 128, 128));
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {.max_requests = huge}, 128, 128));
  const auto odd = PlanForTokens(Shape(), Rows(), {.c128_page_entries = 24}, 128, 128);
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().message,
              testing::HasSubstr("24 entries in a c128 page, expected a positive multiple of 16"));
  EXPECT_FALSE(PlanForTokens(Shape(), Rows(), {.c128_page_entries = 0}, 128, 128));
  EXPECT_FALSE(PlanForBytes(Shape(), Rows(), {}, huge, 0));
  EXPECT_FALSE(PlanForBytes(Shape(), Rows(), {}, huge, std::nan("")));
  EXPECT_FALSE(PlanForBytes(Shape(), Rows(), {.step_tokens = huge}, huge, 0.5));
  // The longest that slots can name is planned without overflow.
  const auto longest = PlanForBytes(Shape(), Rows(), {}, huge, 1.0);
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->geometry.full_pages, (int64_t{1} << 24) - 1);
  EXPECT_GT(longest->bytes(), int64_t{1} << 43);
}

TEST(Capacity, ReportsEveryPoolThatExists) {
  const CachePlan plan = PlanForTokens(Shape(), Rows(), {}, 1024, 512).value();
  EXPECT_THAT(plan.Report(),
              testing::HasSubstr("c4 index: 2 layers of 288 rows of 130 bytes, 74880 bytes\n"));
  CacheShape plain = Shape();
  plain.ratios = {0};
  EXPECT_EQ(PlanForTokens(plain, Rows(), {}, 128, 128).value().Report(),
            "window: 1 layers of 256 rows of 1024 bytes, 262144 bytes\n");
}

TEST(Capacity, HasTheRowSizesOfThePublishedFormats) {
  // 448 codes, 64 bfloat16, 7 scales and a byte to fill up to 8.
  EXPECT_EQ((RowLayout{RowFormat::kFp8Bf16, RowRounding::kFp8, 512, 64}).bytes(),
            448 + 2 * 64 + 7 + 1);
  EXPECT_EQ((RowLayout{RowFormat::kBf16, RowRounding::kNone, 512, 0}).bytes(), 1024);
}

}  // namespace
}  // namespace cachalot
