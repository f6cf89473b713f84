#include "cache/pools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "cache/fake_device.h"

namespace cachalot {
namespace {

CacheShape Shape() {
  CacheShape shape;
  shape.ratios = {0, 1, 4, 128, 4};
  shape.num_draft_layers = 3;
  shape.head_dim = 512;
  shape.rope_dim = 64;
  shape.index_head_dim = 128;
  shape.kv_rounding = RowRounding::kFp8;
  shape.index_rounding = RowRounding::kFp4;
  return shape;
}

CachePlan PlanOf(const Device& device, const CacheShape& shape, bool speculative = false) {
  return PlanForTokens(shape, RowLayoutsOf(device, shape),
                       {.max_requests = 3, .speculative = speculative}, 1024, 512)
      .value();
}

bool IsCleared(const Tensor& state, int64_t row) {
  const int64_t width = state.shape[1];
  const float* values = state.As<float>() + row * width;
  for (int64_t i = 0; i < width; ++i) {
    const float expected = i < width / 2 ? 0 : -std::numeric_limits<float>::infinity();
    if (values[i] != expected) {
      return false;
    }
  }
  return true;
}

TEST(Pools, PlacesLayersByRatio) {
  const std::vector<LayerPlace> expected = {{0, 0}, {0, 1}, {4, 0}, {128, 0}, {4, 1}};
  EXPECT_EQ(PlaceLayers(Shape()), expected);
}

class PoolsTest : public testing::Test {
 protected:
  void Make(const CacheShape& shape, bool speculative = false) {
    plan_ = PlanOf(device_, shape, speculative);
    pools_ = CachePools::Create(device_, *stream_, shape, plan_, factory_).value();
  }

  FakeDevice device_{RowFormat::kBf16};
  std::unique_ptr<Stream> stream_ = device_.NewStream();
  CacheFactory factory_;
  CachePlan plan_;
  std::unique_ptr<CachePools> pools_;
};

TEST_F(PoolsTest, GivesEachLayerWhatItsRatioNeeds) {
  Make(Shape());
  for (const int64_t plain : {0, 1}) {
    const LayerCache cache = pools_->layer(plain);
    EXPECT_EQ(cache.ratio, 0);
    EXPECT_EQ(cache.window.num_rows, (4 + 1) * 128);
    EXPECT_TRUE(cache.entries.empty());
    EXPECT_TRUE(cache.index_keys.empty());
    EXPECT_TRUE(cache.state.attn.empty());
  }
  const LayerCache c4 = pools_->layer(2);
  EXPECT_EQ(c4.ratio, 4);
  EXPECT_EQ(c4.entries.num_rows, (8 + 1) * 32);
  EXPECT_EQ(c4.index_keys.num_rows, (8 + 1) * 32);
  EXPECT_EQ(c4.page_entries, 32);
  EXPECT_EQ(c4.state.attn.shape[1], 2048);
  EXPECT_EQ(c4.state.index.shape[1], 512);
  EXPECT_EQ(c4.state.attn.shape[0], c4.state.index.shape[0]);
  EXPECT_EQ(c4.state.state_span, 128);
  EXPECT_EQ(c4.state.state_rows, 8);
  const LayerCache c128 = pools_->layer(3);
  EXPECT_EQ(c128.ratio, 128);
  EXPECT_EQ(c128.page_entries, 16);
  EXPECT_EQ(c128.entries.num_rows % 16, 0);
  EXPECT_TRUE(c128.index_keys.empty());
  EXPECT_EQ(c128.state.attn.shape[1], 1024);
  EXPECT_TRUE(c128.state.index.empty());
  EXPECT_EQ(c128.state.state_rows, 128);
  EXPECT_GE(c128.state.state_span, int64_t{1} << 20);
  for (const int64_t draft : {0, 1, 2}) {
    EXPECT_EQ(pools_->draft_layer(draft).ratio, 0);
    EXPECT_FALSE(pools_->draft_layer(draft).window.empty());
  }
}

TEST_F(PoolsTest, SharesNoMemoryBetweenLayers) {
  Make(Shape());
  std::vector<std::pair<const uint8_t*, int64_t>> parts;
  const auto add = [&](const RowPool& pool) {
    parts.emplace_back(static_cast<const uint8_t*>(pool.data), pool.num_rows * pool.layout.bytes());
  };
  for (int64_t i = 0; i < 5; ++i) {
    const LayerCache cache = pools_->layer(i);
    add(cache.window);
    add(cache.entries);
    add(cache.index_keys);
    parts.emplace_back(cache.state.attn.raw(), cache.state.attn.bytes());
    parts.emplace_back(cache.state.index.raw(), cache.state.index.bytes());
  }
  for (int64_t i = 0; i < 3; ++i) {
    add(pools_->draft_layer(i).window);
  }
  std::erase_if(parts, [](const auto& part) { return part.first == nullptr; });
  std::sort(parts.begin(), parts.end());
  int64_t total = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    total += parts[i].second;
    if (i > 0) {
      EXPECT_LE(parts[i - 1].first + parts[i - 1].second, parts[i].first);
    }
  }
  // Together the views are all that was allocated.
  EXPECT_EQ(total, device_.bytes_held);
}

TEST_F(PoolsTest, StartsWithZeroRowsAndClearedState) {
  Make(Shape());
  const LayerCache cache = pools_->layer(2);
  const auto* bytes = static_cast<const uint8_t*>(cache.entries.data);
  for (int64_t i = 0; i < cache.entries.num_rows * cache.entries.layout.bytes(); ++i) {
    ASSERT_EQ(bytes[i], 0);
  }
  for (const Tensor& state : {cache.state.attn, cache.state.index, pools_->layer(3).state.attn}) {
    for (int64_t row = 0; row < state.shape[0]; ++row) {
      ASSERT_TRUE(IsCleared(state, row)) << row;
    }
  }
}

TEST_F(PoolsTest, ClearsTheBankOfOneRequestOnly) {
  for (const bool speculative : {false, true}) {
    Make(Shape(), speculative);
    const Tensor state = pools_->layer(3).state.attn;
    std::fill_n(state.As<float>(), state.num_elements(), 1.0f);
    pools_->ClearRequest(*stream_, RequestSlot(2));
    const int64_t bank = speculative ? 256 : 128;
    for (int64_t row = 0; row < state.shape[0]; ++row) {
      ASSERT_EQ(IsCleared(state, row), row >= 2 * bank && row < 3 * bank) << row;
    }
  }
}

TEST_F(PoolsTest, AllocatesExactlyThePlannedBytes) {
  for (const bool speculative : {false, true}) {
    for (const RowFormat format : {RowFormat::kBf16, RowFormat::kFp8Bf16}) {
      for (const std::vector<int64_t>& ratios :
           {std::vector<int64_t>{0, 1, 4, 128, 4}, {0, 0}, {4}, {128, 128}}) {
        CacheShape shape = Shape();
        shape.ratios = ratios;
        FakeDevice device(format);
        const CachePlan plan = PlanOf(device, shape, speculative);
        {
          const auto pools = CachePools::Create(device, *stream_, shape, plan, factory_).value();
          EXPECT_EQ(device.bytes_held, plan.bytes());
          EXPECT_EQ(pools->bytes(), plan.bytes());
        }
        EXPECT_EQ(device.bytes_held, 0);
      }
    }
  }
}

TEST_F(PoolsTest, GivesAllBackWhicheverAllocationFails) {
  const CachePlan plan = PlanOf(device_, Shape());
  int64_t num_buffers = 0;
  for (const PoolPlan& pool : plan.pools()) {
    num_buffers += pool.buffers;
  }
  for (int64_t i = 0; i < num_buffers; ++i) {
    FakeDevice device(RowFormat::kBf16);
    device.fail_at = i;
    const auto pools = CachePools::Create(device, *stream_, Shape(), plan, factory_);
    ASSERT_FALSE(pools);
    EXPECT_EQ(pools.error().code, StatusCode::kResourceExhausted);
    EXPECT_EQ(device.bytes_held, 0);
  }
}

TEST_F(PoolsTest, PutsAKeyAndItsEntryAtTheSameSlotAndTouchesNoOther) {
  CacheShape shape = Shape();
  shape.index_rounding = RowRounding::kInt8;
  Make(shape);
  const LayerCache cache = pools_->layer(2);
  EXPECT_EQ(cache.index_keys.num_rows, cache.entries.num_rows);
  EXPECT_EQ(cache.index_keys.layout.bytes(), 130);
  std::vector<float> key(128, 0.5f);
  key[3] = -2;
  EncodeRow(cache.index_keys.layout, key, cache.index_keys.row(37));
  for (int64_t row = 0; row < cache.index_keys.num_rows; ++row) {
    std::vector<float> read(128);
    DecodeRow(cache.index_keys.layout, cache.index_keys.row(row), read);
    ASSERT_NEAR(read[3], row == 37 ? -2 : 0, 0.01);
  }
}

}  // namespace
}  // namespace cachalot
