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

class RingStateStore final : public StateStore {
 public:
  explicit RingStateStore(const CachePlan& plan)
      : plan_(plan),
        cleared_bank_(ClearedRows(
            plan.rings.c128, plan.c128_state.row_bytes / static_cast<int64_t>(sizeof(float)))) {}

  Status Allocate(Device& device, Stream& stream) {
    CACHALOT_RETURN_IF_ERROR(AllocatePool(device, stream, plan_.c4_state, c4_));
    CACHALOT_RETURN_IF_ERROR(AllocatePool(device, stream, plan_.index_state, index_));
    return AllocatePool(device, stream, plan_.c128_state, c128_);
  }

  StateView view(LayerPlace place) const override {
    const auto index = static_cast<size_t>(place.index);
    if (place.ratio == 4) {
      return {AsRows(c4_[index], plan_.c4_state), AsRows(index_[index], plan_.index_state),
              kPageTokens, plan_.rings.c4};
    }
    if (place.ratio == 128) {
      // One page for all positions of a request.
      return {AsRows(c128_[index], plan_.c128_state), Tensor(), std::numeric_limits<int32_t>::max(),
              plan_.rings.c128};
    }
    return {};
  }

  void ClearRequest(Stream& stream, RequestSlot slot) override {
    const int64_t begin = C128StateRow(slot, TokenPos(0), plan_.rings);
    for (const Buffer& buffer : c128_) {
      stream.Upload(cleared_bank_.data(),
                    AsRows(buffer, plan_.c128_state).Rows(begin, begin + plan_.rings.c128));
    }
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

  const CachePlan plan_;
  const std::vector<float> cleared_bank_;  // outlives every upload of it
  std::vector<Buffer> c4_;
  std::vector<Buffer> index_;
  std::vector<Buffer> c128_;
};

}  // namespace

Result<std::unique_ptr<StateStore>> NewRingStateStore(Device& device, Stream& stream,
                                                      const CachePlan& plan) {
  auto store = std::make_unique<RingStateStore>(plan);
  CACHALOT_RETURN_IF_ERROR(store->Allocate(device, stream));
  return store;
}

}  // namespace cachalot
