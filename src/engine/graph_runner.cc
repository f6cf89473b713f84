#include "engine/graph_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

// Dead requests have no token by query_starts. Tokens past the last of them belong to nobody: they
// stand at position 0 and leave their window rows in page 0 (cache.I2).
void Pad(int64_t size, std::vector<int32_t>& ids, StepTables& tables) {
  const auto count = static_cast<size_t>(size);
  ids.resize(count, 0);
  tables.query_starts.resize(count + 1, static_cast<int32_t>(tables.num_tokens));
  tables.start_pos.resize(count, 0);
  tables.positions.resize(count, 0);
  for (size_t token = tables.window_slots.size(); token < count; ++token) {
    tables.window_slots.push_back(static_cast<int32_t>(token));
  }
  tables.c4_slots.resize(count, 0);
  tables.c128_slots.resize(count, 0);
  for (PageTable* table : {&tables.window_pages, &tables.c4_pages, &tables.c128_pages,
                           &tables.c4_state_pages, &tables.c128_state_pages}) {
    table->rows = size;
    table->values.resize(count * static_cast<size_t>(table->columns), 0);
  }
  tables.num_requests = size;
  tables.num_tokens = size;
}

}  // namespace

std::vector<int64_t> DefaultCaptureSizes(int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < most; size += size < 8 ? 1 : size < 32 ? 4 : 8) {
    sizes.push_back(size);
  }
  sizes.push_back(most);
  return sizes;
}

Result<GraphRunner> GraphRunner::New(Device& device, const CacheGeometry& geometry,
                                     std::vector<int64_t> sizes, int64_t max_context,
                                     const StepMetadata& common) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t least = i == 0 ? 1 : sizes[i - 1] + 1;
    if (sizes[i] < least || sizes[i] > kPageTokens) {
      return MakeError(StatusCode::kInvalidArgument,
                       "a graph of {} requests asked for, expected {} to {}", sizes[i], least,
                       kPageTokens);
    }
  }
  const int64_t most = sizes.empty() ? 1 : sizes.back();
  CACHALOT_ASSIGN_OR_RETURN(
      BatchBuilder builder,
      BatchBuilder::New(device, geometry,
                        {.tokens = most, .requests = most, .context = max_context},
                        BatchBuilder::TableWidth::kOfContext, common));
  return GraphRunner(std::move(builder), std::move(sizes), geometry.window);
}

GraphRunner::GraphRunner(BatchBuilder builder, std::vector<int64_t> sizes, int64_t window)
    : builder_(std::move(builder)), window_(window) {
  for (const int64_t size : sizes) {
    graphs_.push_back({.size = size, .graph = nullptr});
  }
}

bool GraphRunner::Takes(const StepTables& tables) const {
  const int64_t requests = tables.num_requests;
  if (requests < 1 || requests != tables.num_tokens || graphs_.empty() ||
      requests > graphs_.back().size) {
    return false;
  }
  for (size_t b = 0; b < tables.query_starts.size(); ++b) {
    if (tables.query_starts[b] != static_cast<int32_t>(b)) {
      return false;
    }
  }
  return true;
}

void GraphRunner::Run(Stream& stream, std::vector<int32_t> ids, StepTables tables,
                      const std::function<void(const Batch&)>& issue, GraphStats& stats) {
  CACHALOT_CHECK(Takes(tables));
  SizedGraph& sized =
      *std::ranges::lower_bound(graphs_, tables.num_requests, {}, &SizedGraph::size);
  stats.padded_rows += sized.size - tables.num_requests;
  Pad(sized.size, ids, tables);
  WindowRanges ranges = WindowRanges::Causal(tables.positions, window_);
  const Batch batch = builder_.Build(stream, std::move(ids), std::move(tables), std::move(ranges));
  if (sized.graph != nullptr) {
    stream.Replay(*sized.graph);
    ++stats.replays;
    return;
  }
  // Run before it is recorded: a device may get ready for shapes that are new to it, which a
  // capture has no room for.
  issue(batch);
  stream.BeginCapture();
  issue(batch);
  sized.graph = stream.EndCapture();
  ++stats.captures;
}

}  // namespace cachalot
