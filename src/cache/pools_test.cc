#include "cache/pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
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

CachePlan PlanOf(const Device& device, const CacheShape& shape, const CacheOptions& options = {}) {
  CacheOptions of_three = options;
  of_three.max_requests = 3;
  return PlanForTokens(shape, RowLayoutsOf(device, shape), of_three, 1024, 512).value();
}

const CacheOptions kPaged = {.state = StateKind::kPaged};

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
  void Make(const CacheShape& shape, const CacheOptions& options = {}) {
    plan_ = PlanOf(device_, shape, options);
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

TEST_F(PoolsTest, HasRoomForEveryStateThatAPageCanHold) {
  Make(Shape(), kPaged);
  EXPECT_EQ(plan_.geometry.c4_state_pages, 2 * 3 + 512 / 106);
  EXPECT_EQ(plan_.geometry.c128_state_pages, 3 * 3 + 512 / 66);
  for (const auto& [layer, pages] : {std::pair(2, plan_.geometry.c4_state_pages),
                                     std::pair(3, plan_.geometry.c128_state_pages)}) {
    const StateView state = pools_->layer(layer).state;
    EXPECT_EQ(state.state_span, kPageTokens);
    EXPECT_EQ(state.state_rows, kPageTokens);
    EXPECT_EQ(state.attn.shape[0], (pages + 1) * kPageTokens);
    for (int64_t row = 0; row < state.attn.shape[0]; ++row) {
      ASSERT_TRUE(IsCleared(state.attn, row)) << row;
    }
  }
  EXPECT_EQ(pools_->layer(2).state.index.shape[0], pools_->layer(2).state.attn.shape[0]);
  // Nothing of it goes with a window page.
  EXPECT_EQ(pools_->PartRows(PagePart::kWindow, {PageId(3), PageId(2), PageId(1), 5}).size(), 8u);
}

TEST_F(PoolsTest, RefusesAStoreOfTheOtherKind) {
  const auto rings = NewRingStateStore(device_, *stream_, PlanOf(device_, Shape(), kPaged));
  ASSERT_FALSE(rings);
  EXPECT_EQ(rings.error().code, StatusCode::kUnsupported);
  EXPECT_THAT(rings.error().message, testing::HasSubstr("--state ring"));
  const auto paged = NewPagedStateStore(device_, *stream_, PlanOf(device_, Shape()));
  ASSERT_FALSE(paged);
  EXPECT_THAT(paged.error().message, testing::HasSubstr("--state paged"));
}

TEST_F(PoolsTest, ClearsTheBankOfOneRequestOnly) {
  for (const bool speculative : {false, true}) {
    Make(Shape(), {.speculative = speculative});
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
  for (const CacheOptions& options : {CacheOptions(), CacheOptions{.speculative = true}, kPaged}) {
    for (const RowFormat format : {RowFormat::kBf16, RowFormat::kFp8Bf16}) {
      for (const std::vector<int64_t>& ratios :
           {std::vector<int64_t>{0, 1, 4, 128, 4}, {0, 0}, {4}, {128, 128}}) {
        CacheShape shape = Shape();
        shape.ratios = ratios;
        FakeDevice device(format);
        const CachePlan plan = PlanOf(device, shape, options);
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

// All that the pools hold, byte by byte.
std::vector<uint8_t> BytesOf(const CachePools& pools) {
  std::vector<uint8_t> bytes;
  const auto add = [&](const void* data, int64_t count) {
    if (data != nullptr) {
      const auto* begin = static_cast<const uint8_t*>(data);
      bytes.insert(bytes.end(), begin, begin + count);
    }
  };
  const auto add_pool = [&](const RowPool& pool) {
    add(pool.data, pool.num_rows * pool.layout.bytes());
  };
  for (int64_t layer = 0; layer < 5; ++layer) {
    const LayerCache cache = pools.layer(layer);
    add_pool(cache.window);
    add_pool(cache.entries);
    add_pool(cache.index_keys);
    add(cache.state.attn.data, cache.state.attn.bytes());
    add(cache.state.index.data, cache.state.index.bytes());
  }
  for (int64_t layer = 0; layer < 3; ++layer) {
    add_pool(pools.draft_layer(layer).window);
  }
  return bytes;
}

int64_t BytesThatDiffer(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    count += a[i] != b[i];
  }
  return count;
}

void FillRows(const std::vector<Tensor>& rows, uint8_t first) {
  for (const Tensor& part : rows) {
    for (int64_t i = 0; i < part.bytes(); ++i) {
      static_cast<uint8_t*>(part.data)[i] = static_cast<uint8_t>(first + i % 97);
    }
  }
}

TEST_F(PoolsTest, ListsTheRowsOfAPart) {
  for (const bool speculative : {false, true}) {
    Make(Shape(), {.speculative = speculative});
    const PagePlace place = {PageId(3), PageId(2), PageId(1), 5};
    const int64_t ring = speculative ? 16 : 8;
    const LayerCache c4 = pools_->layer(2);
    const LayerCache c128 = pools_->layer(3);
    // c4 entries of two layers, index keys of two, a c128 entry of one.
    const auto history = pools_->PartRows(PagePart::kHistory, place);
    ASSERT_EQ(history.size(), 5u);
    EXPECT_EQ(history[0].data, c4.entries.row(3 * 32));
    EXPECT_EQ(history[0].bytes(), 32 * c4.entries.layout.bytes());
    EXPECT_EQ(history[2].data, c4.index_keys.row(3 * 32));
    EXPECT_EQ(history[2].bytes(), 32 * c4.index_keys.layout.bytes());
    EXPECT_EQ(history[4].data, c128.entries.row(1 * 16 + 5));
    EXPECT_EQ(history[4].bytes(), c128.entries.layout.bytes());
    // Window rows of eight layers, then the last four rows of two rings in two layers.
    const auto window = pools_->PartRows(PagePart::kWindow, place);
    ASSERT_EQ(window.size(), 8u + 4u);
    EXPECT_EQ(window[4].data, pools_->layer(4).window.row(2 * 128));
    EXPECT_EQ(window[5].data, pools_->draft_layer(0).window.row(2 * 128));
    EXPECT_EQ(window[0].bytes(), 128 * c4.window.layout.bytes());
    EXPECT_EQ(window[8].data, c4.state.attn.As<float>() + (3 * ring - 4) * 2048);
    EXPECT_EQ(window[8].bytes(), 4 * 2048 * 4);
    EXPECT_EQ(window[9].data, c4.state.index.As<float>() + (3 * ring - 4) * 512);
    for (const PagePart part : kPageParts) {
      int64_t bytes = 0;
      for (const Tensor& rows : pools_->PartRows(part, place)) {
        EXPECT_EQ(rows.dtype, DType::kU8);
        bytes += rows.bytes();
      }
      EXPECT_EQ(pools_->part_bytes(part), bytes);
    }
  }
}

// cache.I31: what is saved of one page and brought back into another is all that a page has there,
// and no other row is touched.
TEST_F(PoolsTest, MovesAPartToTheHostAndBackIntoAnotherPage) {
  Make(Shape());
  const PagePlace from = {PageId(3), PageId(2), PageId(1), 5};
  const PagePlace to = {PageId(7), PageId(4), PageId(2), 11};
  for (const PagePart part : kPageParts) {
    FillRows(pools_->PartRows(part, from), 1);
    std::vector<uint8_t> host(static_cast<size_t>(pools_->part_bytes(part)));
    const auto before = BytesOf(*pools_);
    size_t offset = 0;
    for (const Tensor& rows : pools_->PartRows(part, from)) {
      stream_->Download(rows, host.data() + offset);
      offset += static_cast<size_t>(rows.bytes());
    }
    ASSERT_EQ(offset, host.size());
    FillRows(pools_->PartRows(part, from), 200);  // the page is somebody else's by now
    const auto without = BytesOf(*pools_);
    offset = 0;
    for (const Tensor& rows : pools_->PartRows(part, to)) {
      stream_->Upload(host.data() + offset, rows);
      offset += static_cast<size_t>(rows.bytes());
    }
    const auto after = BytesOf(*pools_);
    EXPECT_EQ(before.size(), after.size());
    const int64_t changed = BytesThatDiffer(without, after);
    EXPECT_GT(changed, pools_->part_bytes(part) * 9 / 10);
    EXPECT_LE(changed, pools_->part_bytes(part));
    const auto there = pools_->PartRows(part, to);
    const auto here = pools_->PartRows(part, from);
    FillRows(here, 1);
    for (size_t i = 0; i < here.size(); ++i) {
      ASSERT_EQ(std::memcmp(here[i].data, there[i].data, static_cast<size_t>(here[i].bytes())), 0);
    }
  }
}

TEST_F(PoolsTest, MovesPlanesOfIndexKeysWithTheirPage) {
  CacheShape shape = Shape();
  shape.index_rounding = RowRounding::kInt8;
  device_.planar_index = true;
  Make(shape);
  const RowPool keys = pools_->layer(4).index_keys;
  EXPECT_EQ(keys.plane_rows, kC4PageEntries);
  EXPECT_EQ(pools_->layer(4).entries.plane_rows, 0);
  const auto key_of = [](int64_t row) {
    std::vector<float> key(128, static_cast<float>(row));
    key[1] = -127;
    return key;
  };
  for (int64_t row = 0; row < kC4PageEntries; ++row) {
    EncodeRow(keys, 3 * kC4PageEntries + row, key_of(row));
  }
  std::vector<uint8_t> host(static_cast<size_t>(pools_->part_bytes(PagePart::kHistory)));
  size_t offset = 0;
  for (const Tensor& rows :
       pools_->PartRows(PagePart::kHistory, {PageId(3), PageId(2), PageId(1), 5})) {
    stream_->Download(rows, host.data() + offset);
    offset += static_cast<size_t>(rows.bytes());
  }
  offset = 0;
  for (const Tensor& rows :
       pools_->PartRows(PagePart::kHistory, {PageId(7), PageId(4), PageId(2), 11})) {
    stream_->Upload(host.data() + offset, rows);
    offset += static_cast<size_t>(rows.bytes());
  }
  for (int64_t index = 0; index < keys.num_rows; ++index) {
    const int64_t page = index / kC4PageEntries;
    std::vector<float> read(128);
    DecodeRow(keys, index, read);
    EXPECT_EQ(read,
              page == 3 || page == 7 ? key_of(index % kC4PageEntries) : std::vector<float>(128))
        << "row " << index;
  }
}

TEST_F(PoolsTest, CopiesEntriesWithinEveryC128LayerAndNothingElse) {
  CacheShape shape = Shape();
  shape.ratios = {128, 4, 0, 128, 0};
  Make(shape);
  const auto entry = [&](int64_t layer, int64_t row) {
    return static_cast<uint8_t*>(pools_->layer(layer).entries.row(row));
  };
  const int64_t bytes = pools_->layer(0).entries.layout.bytes();
  for (const int64_t layer : {0, 3}) {
    for (int64_t row = 0; row < 32; ++row) {
      std::fill_n(entry(layer, 16 + row), bytes, static_cast<uint8_t>(10 * layer + row + 1));
    }
  }
  const auto before = BytesOf(*pools_);
  pools_->CopyEntryRows(*stream_, {PageId(1), PageId(2), 3, 4});
  for (const int64_t layer : {0, 3}) {
    for (int64_t row = 0; row < 16; ++row) {
      const bool copied = row >= 3 && row < 7;
      EXPECT_EQ(entry(layer, 2 * 16 + row)[bytes - 1],
                static_cast<uint8_t>(10 * layer + row + 1 + (copied ? 0 : 16)));
    }
  }
  EXPECT_EQ(BytesThatDiffer(before, BytesOf(*pools_)), 2 * 4 * bytes);
}

}  // namespace
}  // namespace cachalot
