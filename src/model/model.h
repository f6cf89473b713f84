// DeepSeek-V4: a batch of tokens and the caches in, streams and logits out. Sees tensors and pages,
// never a request. Source of the maths: the published inference code, as device/ops.h restates it
// operator by operator.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/pools.h"
#include "checkpoint/weights.h"
#include "device/device.h"
#include "model/batch.h"
#include "model/rope_frequencies.h"
#include "model/workspace.h"

namespace cachalot {

struct Step;

// Caches of the backbone's layers, then those of the draft layers (the MTP block, or the DSpark
// stages).
struct ModelCaches {
  std::span<const LayerCache> layers;
  std::span<const LayerCache> draft;
};

class Model {
 public:
  // max_tokens bounds a batch; max_logit_rows the rows of one call of Logits. The device outlives
  // the model.
  static Result<Model> New(Device& device, ModelConfig config, Weights weights, int64_t max_tokens,
                           int64_t max_logit_rows);

  const ModelConfig& config() const { return *config_; }
  const Weights& weights() const { return *weights_; }
  // Good as long as the model, moved or not.
  RopeTable RopeForRatio(int64_t ratio) const { return rope_->ForRatio(ratio); }

  // Runs the layers; streams [T, hc, d] is left in the model's own memory until the next Forward.
  // Of a DSpark checkpoint it also stores the draft's context where keep_draft_context is set.
  void Forward(Stream& stream, const Batch& batch, const ModelCaches& caches,
               bool keep_draft_context);

  // Tokens of the last Forward. Whoever has a recorded one replayed says how many of its tokens,
  // the first ones, are of requests.
  int64_t num_tokens() const { return num_tokens_; }
  void SetNumTokens(int64_t num_tokens) { num_tokens_ = num_tokens; }

  // logits F32 [M, V] of the last Forward's tokens `rows` I32 [M].
  void Logits(Stream& stream, Tensor rows, Tensor logits);

  // The MTP block over the last Forward's tokens [0, T) with the ids after them; then as Logits.
  void ForwardMtp(Stream& stream, const Batch& batch, const ModelCaches& caches);
  void MtpLogits(Stream& stream, Tensor rows, Tensor logits);

  // The DSpark stages over a block of drafts: logits F32 [block, V], without the Markov term. Then,
  // for each position in order and once its previous token `previous` I32 [1] is known, DraftMarkov
  // adds that term to its row of logits F32 [1, V] and gives the confidence F32 [1, 1].
  void DraftBlock(Stream& stream, const Batch& batch, const ModelCaches& caches, Tensor logits);
  void DraftMarkov(Stream& stream, int64_t position, Tensor previous, Tensor logits,
                   Tensor confidence);

 private:
  Model(Device& device, ModelConfig config, Weights weights, Workspace workspace);

  // The step's fixed parts, for a batch.
  Step StepOf(Stream& stream, const Batch& batch);
  void LogitsOf(Stream& stream, const HeadWeights& head, Tensor streams, Tensor rows,
                Tensor logits);

  // Behind pointers, so that views of them survive a move of the model.
  std::unique_ptr<const ModelConfig> config_;
  std::unique_ptr<const Weights> weights_;
  std::unique_ptr<const RopeFrequencies> rope_;
  Workspace workspace_;
  DType activation_;
  Buffer streams_;      // activation [max_tokens, hc, d]
  Buffer mtp_streams_;  // the same, of checkpoints with an MTP block
  Buffer
      drafts_;  // activation [block, d]: the stages' collapsed output, of checkpoints with DSpark
  int64_t num_tokens_ = 0;  // of the last Forward
};

}  // namespace cachalot
