#include "model/model.h"

#include <algorithm>

#include "base/check.h"
#include "model/block.h"
#include "model/dspark.h"
#include "model/mtp.h"
#include "model/step.h"

namespace cachalot {
namespace {

// An upper bound on what a step takes at once, counted from the parts' own Take calls: all are at
// most four bytes wide and alive together in the deepest scope.
int64_t WorkspaceBytes(const ModelConfig& c, int64_t max_tokens, int64_t max_logit_rows) {
  const int64_t streams = c.hc_mult * c.hidden_size;
  const int64_t sub_layers = 3 * c.hidden_size + 2 * (c.hc_mult + c.hc_mult * c.hc_mult);
  const int64_t attention = c.q_lora_rank + 2 * c.num_heads * c.head_dim + 5 * c.head_dim +
                            c.index_topk + c.index_heads * (c.index_head_dim + 1) +
                            4 * c.index_head_dim + c.o_groups * c.o_lora_rank;
  const int64_t moe = 2 * c.experts_per_token;
  const int64_t draft =
      2 * streams + 2 * c.hidden_size +
      (c.dspark ? static_cast<int64_t>(c.dspark->target_layers.size()) * c.hidden_size : 0);
  const int64_t per_token = sub_layers + std::max(attention, moe) + draft;
  const int64_t per_row = streams + 2 * c.hidden_size;
  constexpr int64_t kAlignmentOfTensors = 64 * 256;
  return 4 * (max_tokens * per_token + max_logit_rows * per_row) + kAlignmentOfTensors;
}

}  // namespace

Model::Model(Device& device, ModelConfig config, Weights weights, Workspace workspace)
    : config_(std::make_unique<const ModelConfig>(std::move(config))),
      weights_(std::make_unique<const Weights>(std::move(weights))),
      rope_(std::make_unique<const RopeFrequencies>(*config_)),
      workspace_(std::move(workspace)),
      activation_(device.activation_dtype()) {}

Result<Model> Model::New(Device& device, ModelConfig config, Weights weights, int64_t max_tokens,
                         int64_t max_logit_rows) {
  CACHALOT_ASSIGN_OR_RETURN(
      Workspace workspace,
      Workspace::New(device, WorkspaceBytes(config, max_tokens, max_logit_rows)));
  Model model(device, std::move(config), std::move(weights), std::move(workspace));
  const int64_t bytes =
      max_tokens * model.config_->hc_mult * model.config_->hidden_size * SizeOf(model.activation_);
  CACHALOT_ASSIGN_OR_RETURN(model.streams_, device.Allocate(bytes));
  if (model.weights_->mtp) {
    CACHALOT_ASSIGN_OR_RETURN(model.mtp_streams_, device.Allocate(bytes));
  }
  if (model.weights_->dspark) {
    const int64_t block = model.config_->dspark->block_size;
    CACHALOT_ASSIGN_OR_RETURN(model.drafts_, device.Allocate(block * model.config_->hidden_size *
                                                             SizeOf(model.activation_)));
  }
  return model;
}

Step Model::StepOf(Stream& stream, const Batch& batch) {
  return {stream, *config_, *rope_, workspace_, activation_, batch};
}

void Model::Forward(Stream& stream, const Batch& batch, const ModelCaches& caches,
                    bool keep_draft_context) {
  const Workspace::Scope scope(workspace_);
  const Step step = StepOf(stream, batch);
  const ModelConfig& config = *config_;
  const int64_t t = batch.num_tokens;
  num_tokens_ = t;
  const Tensor x = streams_.As(activation_, {t, config.hc_mult, config.hidden_size});
  const Tensor e = step.Take({t, config.hidden_size});
  stream.Embedding({.ids = batch.ids, .table = weights_->embed, .y = e});
  stream.BroadcastStreams({.x = e, .y = x});

  const bool tapping = keep_draft_context && weights_->dspark;
  Tensor taps;
  if (tapping) {
    taps = step.Take({t, weights_->dspark->main_proj.cols});
  }
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const auto index = static_cast<size_t>(layer);
    RunBlock(step, weights_->layers[index], caches.layers[index], x);
    if (!tapping) {
      continue;
    }
    const std::vector<int64_t>& targets = config.dspark->target_layers;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == layer) {
        stream.StreamMean({.x = x, .y = e});
        stream.CopyColumns(
            {.src = e, .dst = taps, .column = static_cast<int64_t>(i) * config.hidden_size});
      }
    }
  }
  if (tapping) {
    StoreDsparkContext(step, *weights_->dspark, caches.draft, taps);
  }
}

void Model::LogitsOf(Stream& stream, const HeadWeights& head, Tensor streams, Tensor rows,
                     Tensor logits) {
  const Workspace::Scope scope(workspace_);
  const Batch none;
  const Step step = StepOf(stream, none);
  const int64_t m = rows.shape[0];
  const Tensor picked = step.Take({m, config_->hc_mult, config_->hidden_size});
  const Tensor collapsed = step.Take({m, config_->hidden_size});
  stream.GatherRows({.src = streams, .rows = rows, .dst = picked});
  RunHcHead(step, head, picked, collapsed);
  RunLogits(step, head, weights_->lm_head, collapsed, logits);
}

void Model::Logits(Stream& stream, Tensor rows, Tensor logits) {
  LogitsOf(stream, weights_->head,
           streams_.As(activation_, {num_tokens_, config_->hc_mult, config_->hidden_size}), rows,
           logits);
}

void Model::ForwardMtp(Stream& stream, const Batch& batch, const ModelCaches& caches) {
  CACHALOT_CHECK(weights_->mtp.has_value(), "the checkpoint has no MTP block");
  CACHALOT_CHECK_LE(batch.num_tokens, num_tokens_);
  const Shape shape = {batch.num_tokens, config_->hc_mult, config_->hidden_size};
  RunMtp(StepOf(stream, batch), *weights_->mtp, weights_->embed, caches.draft[0],
         streams_.As(activation_, shape), mtp_streams_.As(activation_, shape));
}

void Model::MtpLogits(Stream& stream, Tensor rows, Tensor logits) {
  LogitsOf(stream, weights_->mtp->head,
           mtp_streams_.As(activation_, {num_tokens_, config_->hc_mult, config_->hidden_size}),
           rows, logits);
}

void Model::DraftBlock(Stream& stream, const Batch& batch, const ModelCaches& caches,
                       Tensor logits) {
  CACHALOT_CHECK(weights_->dspark.has_value(), "the checkpoint has no DSpark stages");
  CACHALOT_CHECK_LE(batch.num_tokens, config_->dspark->block_size);
  RunDsparkBlock(StepOf(stream, batch), *weights_->dspark, weights_->embed, weights_->lm_head,
                 caches.draft, drafts_.As(activation_, {batch.num_tokens, config_->hidden_size}),
                 logits);
}

void Model::DraftMarkov(Stream& stream, int64_t position, Tensor previous, Tensor logits,
                        Tensor confidence) {
  const Batch none;
  const Tensor collapsed =
      drafts_.As(activation_, {config_->dspark->block_size, config_->hidden_size})
          .Rows(position, position + 1);
  AddMarkovTerm(StepOf(stream, none), *weights_->dspark, previous, collapsed, logits, confidence);
}

}  // namespace cachalot
