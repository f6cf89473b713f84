// Executor: a model with its weights and the memory of its caches. Runs steps over tables that
// somebody else made: it knows no allocator, no request and no schedule. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/pools.h"
#include "cache/step_tables.h"
#include "checkpoint/weights.h"
#include "device/device.h"
#include "engine/batch_builder.h"
#include "engine/graph_runner.h"
#include "model/model.h"

namespace cachalot {

struct ExecutorOptions {
  int64_t max_context = 0;   // tokens of one request
  int64_t max_requests = 1;  // of one step
  int64_t max_step_tokens = 512;
  bool draft_context = false;  // keep what DSpark needs of every token
  // Steps of one token per request are recorded once per number of requests and replayed from then
  // on; not one bit of what they compute depends on it.
  bool graph = false;
  std::vector<int64_t> capture_sizes;  // rising; empty: DefaultCaptureSizes
};

struct DsparkDraft {
  std::vector<int32_t> ids;       // [block]
  std::vector<float> confidence;  // [block], before the sigmoid
  std::vector<float> logits;      // [block, vocab]
};

class Executor {
 public:
  // Config and weights are a checkpoint's; what runs is ConfigOn(device, config) on weights placed
  // where the device wants them, with pools as `plan` says. kInvalidArgument for a context that the
  // model has not, or sizes of graphs that do not rise or are beyond a step. The device outlives
  // the executor.
  static Result<Executor> New(Device& device, ModelConfig config, Weights weights,
                              const CachePlan& plan, const ExecutorOptions& options);

  const ModelConfig& config() const { return model_.config(); }
  const Weights& weights() const { return model_.weights(); }
  Stream& stream() { return *stream_; }
  CachePools& pools() { return *pools_; }
  const CachePools& pools() const { return *pools_; }
  // Of the layers, then of the draft layers.
  std::span<const LayerCache> layer_caches() const { return layer_caches_; }
  const GraphStats& graph_stats() const { return graph_stats_; }

  // Begins a step: puts its metadata on the device, for operators that the caller issues himself.
  // Good until the next step.
  Batch Upload(std::vector<int32_t> ids, StepTables tables, WindowRanges ranges,
               StepLayers layers = StepLayers::kBackbone);

  // Issues a step and does not wait for it: the stream must have been waited for since the step
  // before, and its faults surface when it is waited for. Ids [T] are in the vocabulary.
  void Forward(std::vector<int32_t> ids, StepTables tables);
  // Tokens of the last step.
  int64_t num_tokens() const { return model_.num_tokens(); }
  // Logits [rows, vocab] of these tokens of the last step. Waits for the stream.
  Status Logits(std::span<const int32_t> rows, std::vector<float>* logits);

  // The MTP block over the first tokens of the last step, which `tables` describe, with the ids
  // after them. As Forward and Logits.
  void ForwardMtp(std::vector<int32_t> next_ids, StepTables tables);
  Status MtpLogits(std::span<const int32_t> rows, std::vector<float>* logits);

  // The greedy DSpark draft of one request: `tables` describe the block, which begins with `known`,
  // the token after all that the request has. Waits for the stream.
  Result<DsparkDraft> DraftBlock(int32_t known, StepTables tables);

 private:
  Executor(std::unique_ptr<Stream> stream, Model model, std::unique_ptr<CachePools> pools,
           BatchBuilder builder, bool draft_context);

  ModelCaches caches() const;
  template <typename RunLogits>
  Status DownloadLogits(std::span<const int32_t> rows, std::vector<float>* logits,
                        const RunLogits& run);

  std::unique_ptr<Stream> stream_;
  Model model_;
  std::unique_ptr<CachePools> pools_;
  std::vector<LayerCache> layer_caches_;
  BatchBuilder builder_;
  std::optional<GraphRunner> graphs_;
  GraphStats graph_stats_;
  bool draft_context_;
  Buffer logits_;      // F32 [rows, vocab]
  Buffer logit_rows_;  // I32 [rows]
  Buffer previous_;    // I32 [1]: the token before a draft position
  Buffer confidence_;  // F32 [1, 1]: of a draft position
};

}  // namespace cachalot
