// GraphRunner: decoding steps from recorded graphs, one for each number of requests that is worth
// one. A step is padded with dead requests to the next such number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/step_tables.h"
#include "device/device.h"
#include "engine/batch_builder.h"
#include "model/batch.h"

namespace cachalot {

struct GraphStats {
  int64_t captures = 0;     // steps that ran as they were issued and left a graph
  int64_t replays = 0;      // steps that were a graph's replay
  int64_t eager_steps = 0;  // steps that no graph takes
  int64_t padded_rows = 0;  // dead requests of the first two
};

// 1 to 8, then multiples of 4 to 32, then of 8, and `most`.
std::vector<int64_t> DefaultCaptureSizes(int64_t most);

class GraphRunner {
 public:
  // `sizes` rise, from 1 to at most a page's rows: the dead write to page 0, each to its own row.
  // common: as BatchBuilder's.
  static Result<GraphRunner> New(Device& device, const CacheGeometry& geometry,
                                 std::vector<int64_t> sizes, int64_t max_context,
                                 const StepMetadata& common);

  // Whether every request of the step has one token and there is a graph for so many.
  bool Takes(const StepTables& tables) const;
  // Issues a step that it takes. `issue` puts the operators of a batch on the stream; it is called
  // where there is no graph of the size yet, and may depend on the batch's shape alone.
  void Run(Stream& stream, std::vector<int32_t> ids, StepTables tables,
           const std::function<void(const Batch&)>& issue, GraphStats& stats);

 private:
  struct SizedGraph {
    int64_t size = 0;
    std::unique_ptr<Graph> graph;  // null before the first step of the size
  };

  GraphRunner(BatchBuilder builder, std::vector<int64_t> sizes, int64_t window);

  BatchBuilder builder_;
  std::vector<SizedGraph> graphs_;  // of rising sizes
  int64_t window_;
};

}  // namespace cachalot
