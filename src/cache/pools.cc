#include "cache/pools.h"

#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

RowPool AsPool(const Buffer& buffer, const RowLayout& layout, const PoolPlan& plan,
               int64_t page_rows) {
  return {buffer.data(), layout, plan.rows, layout.planar ? page_rows : 0};
}

Status AllocatePool(CacheFactory& factory, Device& device, const RowLayout& layout,
                    const PoolPlan& plan, std::vector<Buffer>& buffers) {
  for (int64_t i = 0; i < plan.buffers; ++i) {
    CACHALOT_ASSIGN_OR_RETURN(Buffer buffer, factory.NewRows(device, layout, plan.rows));
    buffers.push_back(std::move(buffer));
  }
  return {};
}

}  // namespace

CacheRows RowLayoutsOf(const Device& device, const CacheShape& shape) {
  CacheRows rows;
  rows.kv = device.KvRows(shape.head_dim, shape.rope_dim, shape.kv_rounding);
  // Single rows of a page are moved, of c128 entries (PartRows, CopyEntryRows).
  CACHALOT_CHECK(!rows.kv.planar, "{}: planes of key/value rows", device.name());
  if (shape.CountLayers(4) > 0) {
    rows.index = device.IndexRows(shape.index_head_dim, shape.index_rounding);
  }
  return rows;
}

Result<Buffer> CacheFactory::NewRows(Device& device, const RowLayout& layout, int64_t num_rows) {
  return device.Allocate(num_rows * layout.bytes());
}

Result<std::unique_ptr<StateStore>> CacheFactory::NewState(Device& device, Stream& stream,
                                                           const CachePlan& plan) {
  return plan.geometry.has_paged_state() ? NewPagedStateStore(device, stream, plan)
                                         : NewRingStateStore(device, stream, plan);
}

CachePools::CachePools(const CacheShape& shape, const CachePlan& plan)
    : plan_(plan), places_(PlaceLayers(shape)) {}

Result<std::unique_ptr<CachePools>> CachePools::Create(Device& device, Stream& stream,
                                                       const CacheShape& shape,
                                                       const CachePlan& plan,
                                                       CacheFactory& factory) {
  std::unique_ptr<CachePools> pools(new CachePools(shape, plan));
  const struct {
    const RowLayout& layout;
    const PoolPlan& plan;
    std::vector<Buffer>& buffers;
  } parts[] = {{plan.rows.kv, plan.window, pools->window_},
               {plan.rows.kv, plan.c4, pools->c4_},
               {plan.rows.index, plan.index, pools->index_},
               {plan.rows.kv, plan.c128, pools->c128_}};
  for (const auto& part : parts) {
    CACHALOT_RETURN_IF_ERROR(AllocatePool(factory, device, part.layout, part.plan, part.buffers));
  }
  CACHALOT_ASSIGN_OR_RETURN(pools->state_, factory.NewState(device, stream, plan));
  return pools;
}

LayerCache CachePools::ViewOf(size_t window, LayerPlace place) const {
  LayerCache cache;
  cache.ratio = place.ratio;
  cache.window = AsPool(window_[window], plan_.rows.kv, plan_.window, kPageTokens);
  const auto index = static_cast<size_t>(place.index);
  if (place.ratio == 4) {
    cache.entries = AsPool(c4_[index], plan_.rows.kv, plan_.c4, kC4PageEntries);
    cache.index_keys = AsPool(index_[index], plan_.rows.index, plan_.index, kC4PageEntries);
    cache.page_entries = kC4PageEntries;
  } else if (place.ratio == 128) {
    cache.page_entries = plan_.geometry.c128_page_entries;
    cache.entries = AsPool(c128_[index], plan_.rows.kv, plan_.c128, cache.page_entries);
  }
  cache.state = state_->view(place);
  return cache;
}

LayerCache CachePools::layer(int64_t layer) const {
  CACHALOT_CHECK_GE(layer, 0);
  CACHALOT_CHECK_LT(layer, static_cast<int64_t>(places_.size()));
  return ViewOf(static_cast<size_t>(layer), places_[static_cast<size_t>(layer)]);
}

LayerCache CachePools::draft_layer(int64_t layer) const {
  CACHALOT_CHECK_GE(layer, 0);
  CACHALOT_CHECK_LT(places_.size() + static_cast<size_t>(layer), window_.size());
  return ViewOf(places_.size() + static_cast<size_t>(layer), LayerPlace());
}

std::vector<Tensor> CachePools::PartRows(PagePart part, const PagePlace& place) const {
  std::vector<Tensor> rows;
  const auto add = [&](const std::vector<Buffer>& buffers, const PoolPlan& plan, int64_t begin,
                       int64_t count) {
    for (const Buffer& buffer : buffers) {
      rows.push_back({static_cast<std::byte*>(buffer.data()) + begin * plan.row_bytes, DType::kU8,
                      Shape({count * plan.row_bytes})});
    }
  };
  if (part == PagePart::kHistory) {
    add(c4_, plan_.c4, place.full.value * kC4PageEntries, kC4PageEntries);
    add(index_, plan_.index, place.full.value * kC4PageEntries, kC4PageEntries);
    add(c128_, plan_.c128, place.c128.value * plan_.geometry.c128_page_entries + place.c128_row, 1);
    return rows;
  }
  add(window_, plan_.window, place.swa.value * kPageTokens, kPageTokens);
  const size_t first_state = rows.size();
  state_->AddRowsOf(place.swa, rows);
  for (size_t i = first_state; i < rows.size(); ++i) {
    rows[i] = {rows[i].data, DType::kU8, Shape({rows[i].bytes()})};
  }
  return rows;
}

int64_t CachePools::part_bytes(PagePart part) const {
  int64_t bytes = 0;
  for (const Tensor& rows : PartRows(part, PagePlace())) {
    bytes += rows.bytes();
  }
  return bytes;
}

void CachePools::CopyEntryRows(Stream& stream, const CopyEntries& move) {
  const int64_t page = plan_.geometry.c128_page_entries;
  const int64_t bytes = plan_.c128.row_bytes;
  for (const Buffer& buffer : c128_) {
    const auto rows = [&](PageId id) {
      return Tensor{static_cast<std::byte*>(buffer.data()) + (id.value * page + move.begin) * bytes,
                    DType::kU8, Shape({move.count * bytes})};
    };
    stream.Copy(rows(move.from), rows(move.to));
  }
}

int64_t CachePools::bytes() const {
  int64_t total = state_->bytes();
  for (const auto* buffers : {&window_, &c4_, &index_, &c128_}) {
    for (const Buffer& buffer : *buffers) {
      total += buffer.bytes();
    }
  }
  return total;
}

}  // namespace cachalot
