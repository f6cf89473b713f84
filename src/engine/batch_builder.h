// From host tables to a Batch on the device: the one place where a step's metadata is uploaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/step_tables.h"
#include "device/device.h"
#include "model/batch.h"

namespace cachalot {

// Window keys of each token: positions [begin, end).
struct WindowRanges {
  std::vector<int32_t> begin;
  std::vector<int32_t> end;

  // A token at position p sees the last `window` positions up to its own.
  static WindowRanges Causal(std::span<const int32_t> positions, int64_t window);
  // Every token of a draft block [start, start + size) sees the window before the block and the
  // whole block.
  static WindowRanges Block(int64_t start, int64_t size, int64_t window);
};

class BatchBuilder {
 public:
  // Room for the metadata of steps of max_tokens over max_requests with contexts of max_context.
  static Result<BatchBuilder> New(Device& device, const CacheGeometry& geometry, int64_t max_tokens,
                                  int64_t max_requests, int64_t max_context);

  // The batch is good until the next call; so is what the stream may still be reading.
  Batch Build(Stream& stream, std::vector<int32_t> ids, StepTables tables, WindowRanges ranges);

 private:
  explicit BatchBuilder(Buffer buffer) : buffer_(std::move(buffer)) {}

  Tensor Place(Stream& stream, std::span<const int32_t> values, Shape shape);

  Buffer buffer_;
  int64_t used_ = 0;
  std::vector<int32_t> ids_;
  StepTables tables_;
  WindowRanges ranges_;
};

}  // namespace cachalot
