#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"
#include "engine/runner.h"

namespace cachalot {
namespace {

// Random rows on the device, of the widths that caches keep.
class Noise {
 public:
  static Result<Noise> New(Device& device, int64_t rows, int64_t width) {
    CACHALOT_CHECK(device.activation_dtype() == DType::kF32);
    CACHALOT_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(rows * width * SizeOf(DType::kF32)));
    return Noise(std::move(buffer), rows * width);
  }

  void Refresh(Stream& stream) {
    std::normal_distribution<float> normal;
    std::generate(values_.begin(), values_.end(), [&] { return normal(random_); });
    stream.Upload(values_.data(), buffer_.As(DType::kF32, {static_cast<int64_t>(values_.size())}));
  }

  // One row for each slot.
  void Store(Stream& stream, Tensor slots, const RowPool& pool) const {
    stream.StoreRows({.x = buffer_.As(DType::kF32, {slots.shape[0], pool.layout.width}),
                      .slots = slots,
                      .pool = pool});
  }

 private:
  Noise(Buffer buffer, int64_t count)
      : buffer_(std::move(buffer)), values_(static_cast<size_t>(count)) {}

  Buffer buffer_;
  std::vector<float> values_;
  std::mt19937 random_{20260402};
};

}  // namespace

Status ModelRunner::FillWithNoise(Device& device, RequestSlot slot, int64_t count) {
  CACHALOT_ASSIGN_OR_RETURN(Noise noise,
                            Noise::New(device, std::min(count, options_.max_step_tokens),
                                       std::max(config().head_dim, config().index_head_dim)));
  int64_t tokens = 0;
  for (int64_t done = 0; done < count; done += tokens) {
    tokens = std::min(count - done, options_.max_step_tokens);
    const StepRequest step = {slot, TokenPos(static_cast<int32_t>(length(slot))), tokens};
    CACHALOT_ASSIGN_OR_RETURN(StepTables tables, Grow({&step, 1}));
    WindowRanges ranges = WindowRanges::Causal(tables.positions, config().window);
    const Batch batch = executor_.Upload(std::vector<int32_t>(static_cast<size_t>(tokens), 0),
                                         std::move(tables), std::move(ranges));
    Stream& stream = executor_.stream();
    noise.Refresh(stream);
    for (const LayerCache& cache : executor_.layer_caches()) {
      noise.Store(stream, batch.window_slots, cache.window);
      if (cache.ratio > 0) {
        noise.Store(stream, cache.ratio == 4 ? batch.c4_slots : batch.c128_slots, cache.entries);
      }
      if (cache.ratio == 4) {
        noise.Store(stream, batch.c4_slots, cache.index_keys);
      }
    }
    CACHALOT_RETURN_IF_ERROR(stream.Synchronize());
    lengths_[static_cast<size_t>(slot.value)] += tokens;
  }
  return {};
}

}  // namespace cachalot
