// CachePools: the memory behind the slots, a set of buffers for each layer, and the views of them
// that the model takes. What a row looks like and how state is addressed is the device's choice,
// made by a CacheFactory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "cache/cache_move.h"
#include "cache/capacity.h"
#include "cache/shape.h"
#include "cache/state_store.h"
#include "device/device.h"

namespace cachalot {

// One layer's caches, addressed as device/ops.h has it: page * rows of a page + offset.
struct LayerCache {
  int64_t ratio = 0;
  RowPool window;
  int64_t window_page_rows = kPageTokens;
  RowPool entries;           // empty for ratio 0
  RowPool index_keys;        // ratio 4: same slots as entries; else empty
  int64_t page_entries = 0;  // rows of a page of entries and of index_keys
  StateView state;
};

CacheRows RowLayoutsOf(const Device& device, const CacheShape& shape);

// A backend with needs of its own derives from this.
class CacheFactory {
 public:
  virtual ~CacheFactory() = default;
  // Zeroed rows for one layer.
  virtual Result<Buffer> NewRows(Device& device, const RowLayout& layout, int64_t num_rows);
  virtual Result<std::unique_ptr<StateStore>> NewState(Device& device, Stream& stream,
                                                       const CachePlan& plan);
};

class CachePools {
 public:
  // kResourceExhausted where the device has not the plan's bytes. The device outlives the pools.
  static Result<std::unique_ptr<CachePools>> Create(Device& device, Stream& stream,
                                                    const CacheShape& shape, const CachePlan& plan,
                                                    CacheFactory& factory);

  LayerCache layer(int64_t layer) const;
  LayerCache draft_layer(int64_t layer) const;
  // To be issued when a request slot is taken, before its first step.
  void ClearRequest(Stream& stream, RequestSlot slot) { state_->ClearRequest(stream, slot); }
  // The rows that make up a part of a page, as bytes (kU8) on the device, layer by layer (cache.I31).
  std::vector<Tensor> PartRows(PagePart part, const PagePlace& place) const;
  // Their bytes in all, the same for every page.
  int64_t part_bytes(PagePart part) const;
  // Copies entries of a c128 page in every layer that has them.
  void CopyEntryRows(Stream& stream, const CopyEntries& move);
  // Bytes that the device gave: those of the plan.
  int64_t bytes() const;

 private:
  CachePools(const CacheShape& shape, const CachePlan& plan);
  LayerCache ViewOf(size_t window, LayerPlace place) const;

  const CachePlan plan_;
  const std::vector<LayerPlace> places_;
  std::vector<Buffer> window_;  // of the layers, then of the draft layers
  std::vector<Buffer> c4_;
  std::vector<Buffer> index_;
  std::vector<Buffer> c128_;
  std::unique_ptr<StateStore> state_;
};

}  // namespace cachalot
