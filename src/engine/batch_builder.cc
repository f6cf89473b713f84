#include "engine/batch_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

constexpr int64_t kAlignment = 64;  // elements

int64_t Padded(int64_t elements) { return (elements + kAlignment) / kAlignment * kAlignment; }

}  // namespace

WindowRanges WindowRanges::Causal(std::span<const int32_t> positions, int64_t window) {
  WindowRanges ranges;
  for (const int32_t position : positions) {
    ranges.begin.push_back(std::max(position + 1 - static_cast<int32_t>(window), 0));
    ranges.end.push_back(position + 1);
  }
  return ranges;
}

WindowRanges WindowRanges::Block(int64_t start, int64_t size, int64_t window) {
  WindowRanges ranges;
  const auto count = static_cast<size_t>(size);
  ranges.begin.assign(count, static_cast<int32_t>(std::max<int64_t>(start - window, 0)));
  ranges.end.assign(count, static_cast<int32_t>(start + size));
  return ranges;
}

Result<BatchBuilder> BatchBuilder::New(Device& device, const CacheGeometry& geometry,
                                       int64_t max_tokens, int64_t max_requests,
                                       int64_t max_context) {
  const int64_t pages = CeilDiv(max_context, kPageTokens) + 1;
  const int64_t c128_pages = CeilDiv(max_context / 128 + 1, geometry.c128_page_entries) + 1;
  const int64_t elements = 5 * Padded(max_tokens) + 2 * Padded(max_tokens + max_requests) +
                           3 * Padded(max_requests + 1) + 3 * Padded(max_requests * pages) +
                           Padded(max_requests * c128_pages);
  CACHALOT_ASSIGN_OR_RETURN(Buffer buffer,
                            device.Allocate(elements * static_cast<int64_t>(sizeof(int32_t))));
  return BatchBuilder(std::move(buffer));
}

Tensor BatchBuilder::Place(Stream& stream, std::span<const int32_t> values, Shape shape) {
  const Tensor tensor{static_cast<int32_t*>(buffer_.data()) + used_, DType::kI32, shape};
  CACHALOT_CHECK_EQ(tensor.num_elements(), static_cast<int64_t>(values.size()));
  used_ += Padded(tensor.num_elements());
  CACHALOT_CHECK_LE(used_ * static_cast<int64_t>(sizeof(int32_t)), buffer_.bytes());
  stream.Upload(values.data(), tensor);
  return tensor;
}

Batch BatchBuilder::Build(Stream& stream, std::vector<int32_t> ids, StepTables tables,
                          WindowRanges ranges) {
  used_ = 0;
  ids_ = std::move(ids);
  tables_ = std::move(tables);
  ranges_ = std::move(ranges);
  const auto vector = [&](const std::vector<int32_t>& values) {
    return Place(stream, values, {static_cast<int64_t>(values.size())});
  };
  const auto table = [&](const PageTable& pages) {
    return Place(stream, pages.values, {pages.rows, pages.columns});
  };
  CACHALOT_CHECK_EQ(static_cast<int64_t>(ids_.size()), tables_.num_tokens);
  Batch batch;
  batch.num_tokens = tables_.num_tokens;
  batch.ids = vector(ids_);
  batch.positions = vector(tables_.positions);
  batch.requests = {vector(tables_.query_starts), vector(tables_.start_pos)};
  batch.window_slots = vector(tables_.window_slots);
  batch.key_begin = vector(ranges_.begin);
  batch.key_end = vector(ranges_.end);
  batch.window_pages = table(tables_.window_pages);
  batch.c4_slots = vector(tables_.c4_slots);
  batch.c4_pages = table(tables_.c4_pages);
  batch.c4_state_pages = table(tables_.c4_state_pages);
  batch.c128_slots = vector(tables_.c128_slots);
  batch.c128_pages = table(tables_.c128_pages);
  batch.c128_state_pages = table(tables_.c128_state_pages);
  return batch;
}

}  // namespace cachalot
