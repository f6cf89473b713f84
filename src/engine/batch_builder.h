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

// The largest step.
struct StepLimits {
  int64_t tokens = 0;
  int64_t requests = 0;
  int64_t context = 0;  // of one request
};

// Which layers run over a step.
enum class StepLayers : uint8_t { kBackbone, kDraft };

class BatchBuilder {
 public:
  // How wide the page tables of a batch are: as its longest request needs, or always as the longest
  // context does, so that a graph finds every page where it was.
  enum class TableWidth : uint8_t { kOfStep, kOfContext };

  // common: what all steps have in common, without values of any one.
  static Result<BatchBuilder> New(Device& device, const CacheGeometry& geometry,
                                  const StepLimits& limits, TableWidth width,
                                  const StepMetadata& common);

  // Uploads the step and tells the stream that it begins. The batch is good until the next call; so
  // is what the stream may still be reading. A field begins at the same address in every batch. Of a
  // table as wide as the context only columns that are in use, or were when its row was last
  // written, are uploaded; the others are zero.
  Batch Build(Stream& stream, std::vector<int32_t> ids, StepTables tables, WindowRanges ranges,
              StepLayers layers = StepLayers::kBackbone);

 private:
  // A table as wide as the context, as it is on the device.
  struct WideTable {
    std::vector<int32_t> values;
    std::vector<int64_t> columns_in_use;  // of each row; zeros beyond
  };

  // A table on the device, and the same values on the host.
  struct PlacedTable {
    Tensor tensor;
    StepPageTable on_host;
  };

  BatchBuilder(Buffer buffer, const StepLimits& limits, TableWidth width, int64_t columns,
               int64_t c128_columns, int64_t c128_state_columns, const StepMetadata& common);

  // The next field of the buffer, which has room for `most` elements.
  Tensor NextField(int64_t most, Shape shape);
  Tensor Place(Stream& stream, const std::vector<int32_t>& values, int64_t most);
  PlacedTable PlaceTable(Stream& stream, const PageTable& table, int64_t most_columns,
                         WideTable& wide);

  Buffer buffer_;
  StepLimits limits_;
  TableWidth width_;
  int64_t columns_;       // of the widest table of token pages
  int64_t c128_columns_;  // and of c128 pages
  int64_t c128_state_columns_;
  StepMetadata common_;
  int64_t used_ = 0;  // elements of the buffer, while a batch is built
  WideTable window_pages_;
  WideTable c4_pages_;
  WideTable c4_state_pages_;
  WideTable c128_pages_;
  WideTable c128_state_pages_;
  std::vector<int32_t> ids_;
  StepTables tables_;
  WindowRanges ranges_;
};

}  // namespace cachalot
