#include "cache/state_store.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace cachalot {
namespace {

Tensor AsRows(const Buffer& buffer, const PoolPlan& plan) {
  const int64_t width = plan.row_bytes / static_cast<int64_t>(sizeof(float));
  return buffer.As(DType::kF32, {plan.rows, width});
}

// cache.I15: kv 0, score -inf.
std::vector<float> ClearedRows(int64_t num_rows, int64_t width) {
  std::vector<float> rows(static_cast<size_t>(num_rows * width));
  for (int64_t row = 0; row < num_rows; ++row) {
    const auto end = rows.begin() + (row + 1) * width;
    std::fill(end - width / 2, end, -std::numeric_limits<float>::infinity());
  }
  return rows;
}

// Buffers and views, which the two kinds have in common.
class StateBuffers : public StateStore {
 public:
  explicit StateBuffers(const CachePlan& plan) : plan_(plan) {}

  Status Allocate(Device& device, Stream& stream) {
    CACHALOT_RETURN_IF_ERROR(AllocatePool(device, stream, plan_.c4_state, c4_));
    CACHALOT_RETURN_IF_ERROR(AllocatePool(device, stream, plan_.index_state, index_));
    return AllocatePool(device, stream, plan_.c128_state, c128_);
  }

  StateView view(LayerPlace place) const override {
    const auto index = static_cast<size_t>(place.index);
    if (place.ratio == 4) {
      return {AsRows(c4_[index], plan_.c4_state), AsRows(index_[index], plan_.index_state),
              plan_.c4_layout.span, plan_.c4_layout.page_rows};
    }
    if (place.ratio == 128) {
      return {AsRows(c128_[index], plan_.c128_state), Tensor(), plan_.c128_layout.span,
              plan_.c128_layout.page_rows};
    }
    return {};
  }

  int64_t bytes() const override {
    int64_t total = 0;
    for (const auto* buffers : {&c4_, &index_, &c128_}) {
      for (const Buffer& buffer : *buffers) {
        total += buffer.bytes();
      }
    }
    return total;
  }

 protected:
  const CachePlan plan_;
  std::vector<Buffer> c4_;
  std::vector<Buffer> index_;
  std::vector<Buffer> c128_;

 private:
  static Status AllocatePool(Device& device, Stream& stream, const PoolPlan& plan,
                             std::vector<Buffer>& buffers) {
    if (plan.buffers == 0) {
      return {};
    }
    const int64_t chunk = kPageTokens;
    CACHALOT_CHECK_EQ(plan.rows % chunk, 0);
    const std::vector<float> cleared =
        ClearedRows(chunk, plan.row_bytes / static_cast<int64_t>(sizeof(float)));
    for (int64_t i = 0; i < plan.buffers; ++i) {
      CACHALOT_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(plan.buffer_bytes()));
      buffers.push_back(std::move(buffer));
      const Tensor rows = AsRows(buffers.back(), plan);
      for (int64_t row = 0; row < plan.rows; row += chunk) {
        stream.Upload(cleared.data(), rows.Rows(row, row + chunk));
      }
    }
    return stream.Synchronize();
  }
};

class RingStateStore final : public StateBuffers {
 public:
  explicit RingStateStore(const CachePlan& plan)
      : StateBuffers(plan),
        cleared_bank_(
            ClearedRows(plan.c128_layout.page_rows,
                        plan.c128_state.row_bytes / static_cast<int64_t>(sizeof(float)))) {}

  void ClearRequest(Stream& stream, RequestSlot slot) override {
    const int64_t rows = plan_.c128_layout.page_rows;
    const int64_t begin = slot.value * rows;
    for (const Buffer& buffer : c128_) {
      stream.Upload(cleared_bank_.data(),
                    AsRows(buffer, plan_.c128_state).Rows(begin, begin + rows));
    }
  }

  // The state of the page's last 4 positions, which end its ring.
  void AddRowsOf(PageId window_page, std::vector<Tensor>& rows) const override {
    const int64_t end = (window_page.value + 1) * plan_.c4_layout.page_rows;
    for (size_t layer = 0; layer < c4_.size(); ++layer) {
      rows.push_back(AsRows(c4_[layer], plan_.c4_state).Rows(end - 4, end));
      rows.push_back(AsRows(index_[layer], plan_.index_state).Rows(end - 4, end));
    }
  }

 private:
  const std::vector<float> cleared_bank_;  // outlives every upload of it
};

// cache.I16: a row is written by the request that reads it, so nothing is cleared but at first.
class PagedStateStore final : public StateBuffers {
 public:
  using StateBuffers::StateBuffers;

  void ClearRequest(Stream& /*stream*/, RequestSlot /*slot*/) override {}
  void AddRowsOf(PageId /*window_page*/, std::vector<Tensor>& /*rows*/) const override {}
};

template <typename Store>
Result<std::unique_ptr<StateStore>> NewStore(Device& device, Stream& stream,
                                             const CachePlan& plan) {
  auto store = std::make_unique<Store>(plan);
  CACHALOT_RETURN_IF_ERROR(store->Allocate(device, stream));
  return store;
}

}  // namespace

Result<std::unique_ptr<StateStore>> NewRingStateStore(Device& device, Stream& stream,
                                                      const CachePlan& plan) {
  if (plan.geometry.has_paged_state()) {
    return MakeError(StatusCode::kUnsupported,
                     "rings of state asked for, but the cache is planned for paged state: expected "
                     "--state ring");
  }
  return NewStore<RingStateStore>(device, stream, plan);
}

Result<std::unique_ptr<StateStore>> NewPagedStateStore(Device& device, Stream& stream,
                                                       const CachePlan& plan) {
  if (!plan.geometry.has_paged_state()) {
    return MakeError(StatusCode::kUnsupported,
                     "paged state asked for, but the cache is planned for rings of state: expected "
                     "--state paged");
  }
  return NewStore<PagedStateStore>(device, stream, plan);
}

}  // namespace cachalot
