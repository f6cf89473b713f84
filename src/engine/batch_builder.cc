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
                                       const StepLimits& limits, TableWidth width,
                                       const StepMetadata& common) {
  const int64_t columns = CeilDiv(limits.context, kPageTokens) + 1;
  const int64_t c128_columns = CeilDiv(limits.context / 128 + 1, geometry.c128_page_entries) + 1;
  const int64_t c128_state_columns = geometry.c128_state_pages > 0 ? columns : 1;
  const int64_t elements = 7 * Padded(limits.tokens) + Padded(limits.requests + 1) +
                           Padded(limits.requests) + 3 * Padded(limits.requests * columns) +
                           Padded(limits.requests * c128_columns) +
                           Padded(limits.requests * c128_state_columns);
  CACHALOT_ASSIGN_OR_RETURN(Buffer buffer,
                            device.Allocate(elements * static_cast<int64_t>(sizeof(int32_t))));
  return BatchBuilder(std::move(buffer), limits, width, columns, c128_columns, c128_state_columns,
                      common);
}

BatchBuilder::BatchBuilder(Buffer buffer, const StepLimits& limits, TableWidth width,
                           int64_t columns, int64_t c128_columns, int64_t c128_state_columns,
                           const StepMetadata& common)
    : buffer_(std::move(buffer)),
      limits_(limits),
      width_(width),
      columns_(columns),
      c128_columns_(c128_columns),
      c128_state_columns_(c128_state_columns),
      common_(common) {}

Tensor BatchBuilder::NextField(int64_t most, Shape shape) {
  const Tensor tensor{static_cast<int32_t*>(buffer_.data()) + used_, DType::kI32, shape};
  CACHALOT_CHECK_LE(tensor.num_elements(), most);
  used_ += Padded(most);
  CACHALOT_CHECK_LE(used_ * static_cast<int64_t>(sizeof(int32_t)), buffer_.bytes());
  return tensor;
}

Tensor BatchBuilder::Place(Stream& stream, const std::vector<int32_t>& values, int64_t most) {
  const Tensor tensor = NextField(most, {static_cast<int64_t>(values.size())});
  stream.Upload(values.data(), tensor);
  return tensor;
}

BatchBuilder::PlacedTable BatchBuilder::PlaceTable(Stream& stream, const PageTable& table,
                                                   int64_t most_columns, WideTable& wide) {
  const int64_t most = limits_.requests * most_columns;
  if (width_ == TableWidth::kOfStep) {
    const Tensor tensor = NextField(most, {table.rows, table.columns});
    stream.Upload(table.values.data(), tensor);
    return {tensor, {table.values, table.columns}};
  }
  CACHALOT_CHECK_LE(table.columns, most_columns);
  wide.values.resize(static_cast<size_t>(most), 0);
  wide.columns_in_use.resize(static_cast<size_t>(limits_.requests), 0);
  const Tensor tensor = NextField(most, {table.rows, most_columns});
  for (int64_t row = 0; row < table.rows; ++row) {
    int64_t& in_use = wide.columns_in_use[static_cast<size_t>(row)];
    const int64_t changed = std::max(in_use, table.columns);
    int32_t* values = wide.values.data() + row * most_columns;
    std::fill_n(std::copy_n(table.values.data() + row * table.columns, table.columns, values),
                changed - table.columns, 0);
    stream.Upload(values, tensor.Rows(row, row + 1).Reshaped({most_columns}).Rows(0, changed));
    in_use = table.columns;
  }
  const auto elements = static_cast<size_t>(table.rows * most_columns);
  return {tensor, {std::span<const int32_t>(wide.values).first(elements), most_columns}};
}

Batch BatchBuilder::Build(Stream& stream, std::vector<int32_t> ids, StepTables tables,
                          WindowRanges ranges, StepLayers layers) {
  used_ = 0;
  ids_ = std::move(ids);
  tables_ = std::move(tables);
  ranges_ = std::move(ranges);
  CACHALOT_CHECK_EQ(static_cast<int64_t>(ids_.size()), tables_.num_tokens);
  Batch batch;
  batch.num_tokens = tables_.num_tokens;
  StepMetadata step = common_;
  const auto place = [&](const std::vector<int32_t>& values, int64_t most, Tensor& tensor,
                         std::span<const int32_t>& on_host) {
    tensor = Place(stream, values, most);
    on_host = values;
  };
  const auto place_table = [&](const PageTable& table, int64_t most_columns, WideTable& wide,
                               Tensor& tensor, StepPageTable& on_host) {
    const PlacedTable placed = PlaceTable(stream, table, most_columns, wide);
    tensor = placed.tensor;
    on_host = placed.on_host;
  };
  const int64_t tokens = limits_.tokens;
  const int64_t requests = limits_.requests;
  place(ids_, tokens, batch.ids, step.ids);
  place(tables_.positions, tokens, batch.positions, step.positions);
  place(tables_.query_starts, requests + 1, batch.requests.query_starts, step.query_starts);
  place(tables_.start_pos, requests, batch.requests.start_pos, step.start_pos);
  place(tables_.window_slots, tokens, batch.window_slots, step.window_slots);
  place(ranges_.begin, tokens, batch.key_begin, step.key_begin);
  place(ranges_.end, tokens, batch.key_end, step.key_end);
  place_table(tables_.window_pages, columns_, window_pages_, batch.window_pages, step.window_pages);
  // A token closes one entry at most.
  place(tables_.c4_slots, tokens, batch.c4_slots, step.c4_slots);
  place_table(tables_.c4_pages, columns_, c4_pages_, batch.c4_pages, step.c4_pages);
  place_table(tables_.c4_state_pages, columns_, c4_state_pages_, batch.c4_state_pages,
              step.c4_state_pages);
  place(tables_.c128_slots, tokens, batch.c128_slots, step.c128_slots);
  place_table(tables_.c128_pages, c128_columns_, c128_pages_, batch.c128_pages, step.c128_pages);
  place_table(tables_.c128_state_pages, c128_state_columns_, c128_state_pages_,
              batch.c128_state_pages, step.c128_state_pages);
  if (layers == StepLayers::kDraft) {
    step.shape.has_c4 = false;
    step.shape.has_c128 = false;
  }
  stream.BeginStep(step);
  return batch;
}

}  // namespace cachalot
