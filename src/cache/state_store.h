// StateStore: the buffers of the compressors' state, whichever way they are addressed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "cache/capacity.h"
#include "cache/ids.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace cachalot {

// One layer's state as CompressorParams takes it.
struct StateView {
  Tensor attn;             // F32 [rows, 2 * c * head_dim]; empty for ratio 0
  Tensor index;            // F32 [rows, 4 * index_head_dim]; empty but for ratio 4
  int64_t state_span = 0;  // positions of one state page
  int64_t state_rows = 0;  // rows of one state page
};

class StateStore {
 public:
  virtual ~StateStore() = default;
  virtual StateView view(LayerPlace place) const = 0;
  // Clears what belongs to a request slot, before its first step. Done when the stream gets there.
  virtual void ClearRequest(Stream& stream, RequestSlot slot) = 0;
  // Appends the rows that a window page takes along where it goes, layer by layer (cache.I18).
  virtual void AddRowsOf(PageId window_page, std::vector<Tensor>& rows) const = 0;
  virtual int64_t bytes() const = 0;
};

// All rows cleared. kUnsupported for a plan of the other kind. The device outlives the store.
Result<std::unique_ptr<StateStore>> NewRingStateStore(Device& device, Stream& stream,
                                                      const CachePlan& plan);
Result<std::unique_ptr<StateStore>> NewPagedStateStore(Device& device, Stream& stream,
                                                       const CachePlan& plan);

}  // namespace cachalot
