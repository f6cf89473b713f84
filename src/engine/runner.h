// ModelRunner: an Executor and the allocator of its caches. Runs steps of tokens for requests whose
// cache pages it takes and gives back; knows nothing of text, sampling or scheduling. Used by one
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache_allocator.h"
#include "cache/state_layout.h"
#include "checkpoint/weights.h"
#include "device/device.h"
#include "engine/executor.h"

namespace cachalot {

struct RunnerOptions {
  int64_t max_context = 0;   // tokens of one request
  int64_t max_requests = 1;  // at once
  int64_t max_step_tokens = 512;
  bool draft_context = false;  // keep what DSpark needs of every token
  StateKind state = StateKind::kRing;
};

// New tokens of one request, following those that it has.
struct RequestTokens {
  RequestSlot slot;
  std::span<const int32_t> ids;
};

class ModelRunner {
 public:
  // The device outlives the runner.
  static Result<ModelRunner> New(Device& device, ModelConfig config, Weights weights,
                                 const RunnerOptions& options);

  const ModelConfig& config() const { return executor_.config(); }
  const RunnerOptions& options() const { return options_; }
  // Bytes of the cache pools.
  int64_t cache_bytes() const { return executor_.pools().bytes(); }

  // kResourceExhausted where max_requests are open.
  Result<RequestSlot> Open();
  void Close(RequestSlot slot);
  int64_t length(RequestSlot slot) const { return lengths_[static_cast<size_t>(slot.value)]; }

  // Runs one step; on an error nothing has changed. Ids must be in the vocabulary.
  Status Forward(std::span<const RequestTokens> requests);
  // `count` tokens more for a request, which nobody runs: the rows that they would have left in the
  // caches hold noise. For measuring at a depth that would take long to reach. `device` is the
  // runner's and keeps activations in float32.
  Status FillWithNoise(Device& device, RequestSlot slot, int64_t count);
  // Logits [rows, vocab] of tokens [begin, end) of the last step, counted over its requests in
  // order.
  Status Logits(int64_t begin, int64_t end, std::vector<float>* logits);

  // The MTP block over the first next_ids.size() tokens of the last step, which had one request:
  // next_ids are the ids after those tokens. Then MtpLogits as Logits.
  Status ForwardMtp(RequestSlot slot, std::span<const int32_t> next_ids);
  Status MtpLogits(int64_t begin, int64_t end, std::vector<float>* logits);

  using Draft = DsparkDraft;
  // The greedy DSpark draft that follows `known`, the token after all that the request has. The
  // request stays as it is.
  Result<Draft> DraftBlock(RequestSlot slot, int32_t known);

 private:
  ModelRunner(const RunnerOptions& options, const CacheGeometry& geometry, Executor executor);

  // Takes room for the new tokens of a step.
  Result<StepTables> Grow(std::span<const StepRequest> steps);
  Status CheckIds(std::span<const int32_t> ids) const;

  RunnerOptions options_;
  CacheAllocator cache_;
  Executor executor_;
  std::vector<RequestSlot> open_;
  std::vector<int64_t> lengths_;  // tokens of each request that have been run
};

}  // namespace cachalot
