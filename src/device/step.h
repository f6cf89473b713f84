// StepMetadata: a step as the host knows it, for devices that prepare a step on the host: schedules
// of cores, gathered rotary tables, index arrays. With it nothing has to be read back from a device.
#pragma once

#include <cstdint>
#include <span>

#include "device/ops.h"

namespace cachalot {

// What the steps of one model have in common.
struct StepShape {
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t index_heads = 0;  // 0, as the next two, without layers of ratio 4
  int64_t index_head_dim = 0;
  int64_t top_k = 0;   // entries that the indexer selects
  int64_t window = 0;  // positions that a token sees in the window cache, its own included
  // Which layers there are beside those of ratio 0.
  bool has_c4 = false;
  bool has_c128 = false;
  // Of layers of each ratio, everything that they rotate.
  RopeTable rope;
  RopeTable rope_c4;
  RopeTable rope_c128;
};

// Page ids [B, columns], as the tensor of the same name in a batch has them.
struct StepPageTable {
  std::span<const int32_t> values;
  int64_t columns = 0;

  int32_t at(int64_t request, int64_t column) const {
    return values[static_cast<size_t>(request * columns + column)];
  }
};

// Where the compressors of one ratio keep their token rows, as CompressorParams has it: the same in
// every layer, for the indexer's compressor too.
struct StepStateRows {
  int64_t span = 0;  // positions of one state page
  int64_t rows = 0;  // rows of one state page
  // Rows of a state buffer. The last belongs to no position; where span equals rows, state has pages
  // of its own and it is page 0 that belongs to none.
  int64_t num_rows = 0;
};

// T tokens of B requests: the values of the tensors that the step's operators are given, in which
// StepRequests and CompressorParams say what they mean.
struct StepMetadata {
  std::span<const int32_t> ids;           // [T]
  std::span<const int32_t> positions;     // [T]
  std::span<const int32_t> query_starts;  // [B + 1]; tokens from the last on belong to nobody
  std::span<const int32_t> start_pos;     // [B]
  std::span<const int32_t> window_slots;  // [T]
  std::span<const int32_t> key_begin;     // [T]
  std::span<const int32_t> key_end;       // [T]
  StepPageTable window_pages;
  // Rows for the entries that the step closes, in request order. In a step that is replayed there
  // are T of them, of which those beyond the entries mean nothing.
  std::span<const int32_t> c4_slots;
  StepPageTable c4_pages;  // of entries and of index keys
  StepPageTable c4_state_pages;
  std::span<const int32_t> c128_slots;
  StepPageTable c128_pages;
  StepPageTable c128_state_pages;

  int64_t window_page_rows = 0;
  int64_t c4_page_entries = 0;
  int64_t c128_page_entries = 0;
  StepStateRows c4_state;    // zeros without layers of ratio 4
  StepStateRows c128_state;  // zeros without layers of ratio 128
  StepShape shape;

  int64_t num_tokens() const { return static_cast<int64_t>(ids.size()); }
  int64_t num_requests() const { return static_cast<int64_t>(start_pos.size()); }
};

}  // namespace cachalot
