// StepImage: all that the operators of a step read beside the model's own tensors, laid out as one
// piece of memory on the host, to be copied to the device as it is. Made from the step's metadata
// alone; equal sizes give equal places, so that a replayed step finds every field where it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/ascend/attention_schedule.h"
#include "backends/ascend/rotary_rows.h"
#include "device/step.h"

namespace cachalot::ascend {

struct StepImageOptions {
  int64_t cores = 0;            // cube cores of the device
  bool host_schedules = false;  // else the fields are left for the metadata operators
};

// T tokens of B requests, every request with at least one token: those without (the padding of a
// recorded step) are given one of the tokens that belong to nobody each, at position 0. Where tokens
// see others than those up to their own (a block of drafts), each is a request of its own.
//
// Fields are byte offsets in the image; I32 where not said.
struct StepField {
  int64_t offset = 0;
  Shape shape;
};

// F32 [T, R]; minus_sin turns back.
struct RotaryFields {
  const double* frequencies = nullptr;
  int64_t dim = 0;
  StepField cos;
  StepField sin;
  StepField minus_sin;
};

// Of one ratio r; c = 2 for ratio 4, else 1. N = min(T, T / r + B) entries, of which those that the
// step closes come first, in request order; the others are padding.
struct CompressionFields {
  int64_t ratio = 0;  // 0: there are none
  int64_t closed = 0;
  int64_t page_entries = 0;
  StepField cos;    // F32 [N, R], at each entry's first token
  StepField sin;    // F32 [N, R]
  StepField slots;  // [N, 2]: page and row in it of the entry pool; of padding, in page 0
  // Rows of the state of positions start_pos - c * r ... of each request, then of its new tokens:
  // [B, c * r + most tokens of a request]. Positions that are not there have the last row.
  StepField state_rows;
  StepField residual;  // [B]: kv_lengths % r
  StepField lengths;   // [B]: kv_lengths / r

  // For compression from plain operators, over rows that are first the c * r state rows before each
  // request's new tokens, then the step's token rows.
  StepField history;     // [B * c * r] rows of the state
  StepField entry_rows;  // [N * c * r] rows that each entry pools, oldest first
  StepField ape_rows;    // [T]: positions % r
  StepField kept_rows;   // [T] state rows to be left behind; [.., 0] of tokens whose row a later
                         // token of the step takes, or that belong to nobody
};

struct StepFields {
  int64_t tokens = 0;
  int64_t requests = 0;
  int64_t most_tokens = 0;  // of a request
  int64_t longest = 0;      // of kv_lengths
  int64_t window_page_rows = 0;
  bool block = false;       // whether tokens are requests
  int64_t window_left = 0;  // positions before its own that a token sees
  StepShape shape;
  StepField query_starts;  // [B + 1]
  StepField query_ends;    // [B]
  StepField kv_lengths;    // [B]: tokens that the request's last one sees, at least 1
  StepField new_tokens;    // [B]: 0 for padding
  StepField start_pos;     // [B]
  StepField window_slots;  // [T, 2]: page and row
  StepField window_pages;  // [B, n] where tokens are requests; else empty: the batch's own serve
  StepField window_schedule, c4_schedule, c128_schedule, index_schedule;  // [1024]
  std::vector<RotaryFields> rotary;
  CompressionFields c4;
  CompressionFields c128;
};

class StepImage {
 public:
  explicit StepImage(const StepImageOptions& options) : options_(options) {}

  // Lays out and fills an image. Nothing of `step` is kept.
  void Build(const StepMetadata& step);

  const StepFields& fields() const { return fields_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const int32_t> Ints(const StepField& field) const;
  // As the operators see them; the schedules are made from these.
  std::span<const int32_t> query_starts() const { return Ints(fields_.query_starts); }
  std::span<const int32_t> kv_lengths() const { return Ints(fields_.kv_lengths); }

 private:
  int32_t* MutableInts(const StepField& field);
  float* MutableFloats(const StepField& field);
  StepField Take(const Shape& shape);

  void LayOut(const StepMetadata& step);
  void LayOut(CompressionFields& fields, int64_t ratio, int64_t rope_dim);
  void FillRequests(const StepMetadata& step);
  void FillBlock(const StepMetadata& step);
  void FillRotary(const StepMetadata& step);
  void FillCompression(const StepMetadata& step, CompressionFields& fields);
  void FillSchedules();
  RotaryRows& RowsOf(const RopeTable& table);

  StepImageOptions options_;
  StepFields fields_;
  int64_t used_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<std::unique_ptr<RotaryRows>> rotary_rows_;  // of every table that was seen
};

}  // namespace cachalot::ascend
