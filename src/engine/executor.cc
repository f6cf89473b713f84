#include "engine/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/cache_plan.h"
#include "model/place_weights.h"
#include "sampling/likeliest.h"

namespace cachalot {
namespace {

// Rows of logits made at once: a vocabulary is wide, and callers want few rows or all of them one
// after the other.
constexpr int64_t kLogitRows = 32;

// What a step's metadata has beside the values of the step.
StepMetadata CommonOf(const Model& model, const CachePools& pools) {
  const ModelConfig& config = model.config();
  StepMetadata common;
  common.window_page_rows = kPageTokens;
  StepShape& shape = common.shape;
  shape.heads = config.num_heads;
  shape.head_dim = config.head_dim;
  shape.window = config.window;
  shape.rope = model.RopeForRatio(0);
  shape.rope_c4 = model.RopeForRatio(4);
  shape.rope_c128 = model.RopeForRatio(128);
  const auto state_of = [](const StateView& state) {
    return StepStateRows{state.state_span, state.state_rows, state.attn.shape[0]};
  };
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const LayerCache cache = pools.layer(i);
    if (cache.ratio == 4) {
      shape.has_c4 = true;
      shape.index_heads = config.index_heads;
      shape.index_head_dim = config.index_head_dim;
      shape.top_k = config.index_topk;
      common.c4_page_entries = cache.page_entries;
      common.c4_state = state_of(cache.state);
    } else if (cache.ratio == 128) {
      shape.has_c128 = true;
      common.c128_page_entries = cache.page_entries;
      common.c128_state = state_of(cache.state);
    }
  }
  return common;
}

Result<GraphRunner> NewGraphRunner(Device& device, const CacheGeometry& geometry,
                                   const ExecutorOptions& options, int64_t context,
                                   const StepMetadata& common) {
  const int64_t most = std::min({options.max_requests, options.max_step_tokens, kPageTokens});
  std::vector<int64_t> sizes = options.capture_sizes;
  if (sizes.empty()) {
    sizes = DefaultCaptureSizes(most);
  }
  if (sizes.back() > options.max_step_tokens) {
    return MakeError(StatusCode::kInvalidArgument,
                     "a graph of {} requests asked for, but a step has at most {} tokens",
                     sizes.back(), options.max_step_tokens);
  }
  return GraphRunner::New(device, geometry, std::move(sizes), context, common);
}

}  // namespace

Executor::Executor(std::unique_ptr<Stream> stream, Model model, std::unique_ptr<CachePools> pools,
                   BatchBuilder builder, bool draft_context)
    : stream_(std::move(stream)),
      model_(std::move(model)),
      pools_(std::move(pools)),
      builder_(std::move(builder)),
      draft_context_(draft_context) {
  for (int64_t layer = 0; layer < config().num_layers; ++layer) {
    layer_caches_.push_back(pools_->layer(layer));
  }
  for (int64_t layer = 0; layer < NumDraftLayers(config()); ++layer) {
    layer_caches_.push_back(pools_->draft_layer(layer));
  }
}

Result<Executor> Executor::New(Device& device, ModelConfig config, Weights weights,
                               const CachePlan& plan, const ExecutorOptions& options) {
  CACHALOT_RETURN_IF_ERROR(CheckContext(config, options.max_context));
  CACHALOT_ASSIGN_OR_RETURN(weights, PlaceWeights(device, std::move(weights), config));
  config = ConfigOn(device, std::move(config));
  const int64_t draft_block = DraftBlockTokens(config);
  const StepLimits limits = {.tokens = std::max(options.max_step_tokens, draft_block),
                             .requests = options.max_requests,
                             .context = options.max_context + draft_block};
  const int64_t vocab = config.vocab_size;
  std::unique_ptr<Stream> stream = device.NewStream();
  CacheFactory factory;
  CACHALOT_ASSIGN_OR_RETURN(
      std::unique_ptr<CachePools> pools,
      CachePools::Create(device, *stream, CacheShapeOf(config), plan, factory));
  CACHALOT_ASSIGN_OR_RETURN(Model model, Model::New(device, std::move(config), std::move(weights),
                                                    limits.tokens, kLogitRows));
  const StepMetadata common = CommonOf(model, *pools);
  CACHALOT_ASSIGN_OR_RETURN(
      BatchBuilder builder,
      BatchBuilder::New(device, plan.geometry, limits, BatchBuilder::TableWidth::kOfStep, common));
  Executor executor(std::move(stream), std::move(model), std::move(pools), std::move(builder),
                    options.draft_context);
  if (options.graph) {
    CACHALOT_ASSIGN_OR_RETURN(
        GraphRunner graphs, NewGraphRunner(device, plan.geometry, options, limits.context, common));
    executor.graphs_ = std::move(graphs);
  }
  const int64_t rows = std::max(kLogitRows, draft_block);
  CACHALOT_ASSIGN_OR_RETURN(executor.logits_, device.Allocate(rows * vocab * SizeOf(DType::kF32)));
  CACHALOT_ASSIGN_OR_RETURN(executor.logit_rows_,
                            device.Allocate(kLogitRows * SizeOf(DType::kI32)));
  CACHALOT_ASSIGN_OR_RETURN(executor.previous_, device.Allocate(SizeOf(DType::kI32)));
  CACHALOT_ASSIGN_OR_RETURN(executor.confidence_, device.Allocate(SizeOf(DType::kF32)));
  return executor;
}

ModelCaches Executor::caches() const {
  const std::span<const LayerCache> all = layer_caches_;
  const auto layers = static_cast<size_t>(config().num_layers);
  return {all.first(layers), all.subspan(layers)};
}

Batch Executor::Upload(std::vector<int32_t> ids, StepTables tables, WindowRanges ranges,
                       StepLayers layers) {
  return builder_.Build(*stream_, std::move(ids), std::move(tables), std::move(ranges), layers);
}

void Executor::Forward(std::vector<int32_t> ids, StepTables tables) {
  const auto issue = [this](const Batch& batch) {
    model_.Forward(*stream_, batch, caches(), draft_context_);
  };
  if (graphs_ && graphs_->Takes(tables)) {
    const int64_t live = tables.num_tokens;
    graphs_->Run(*stream_, std::move(ids), std::move(tables), issue, graph_stats_);
    model_.SetNumTokens(live);
    return;
  }
  WindowRanges ranges = WindowRanges::Causal(tables.positions, config().window);
  issue(Upload(std::move(ids), std::move(tables), std::move(ranges)));
  ++graph_stats_.eager_steps;
}

template <typename RunLogits>
Status Executor::DownloadLogits(std::span<const int32_t> rows, std::vector<float>* logits,
                                const RunLogits& run) {
  const int64_t vocab = config().vocab_size;
  const auto total = static_cast<int64_t>(rows.size());
  logits->resize(static_cast<size_t>(total * vocab));
  for (int64_t first = 0; first < total; first += kLogitRows) {
    const int64_t count = std::min(kLogitRows, total - first);
    const Tensor rows_on_device = logit_rows_.As(DType::kI32, {count});
    const Tensor logits_on_device = logits_.As(DType::kF32, {count, vocab});
    stream_->Upload(rows.data() + first, rows_on_device);
    run(rows_on_device, logits_on_device);
    stream_->Download(logits_on_device, logits->data() + first * vocab);
  }
  return stream_->Synchronize();
}

Status Executor::Logits(std::span<const int32_t> rows, std::vector<float>* logits) {
  return DownloadLogits(rows, logits, [&](Tensor rows_on_device, Tensor out) {
    model_.Logits(*stream_, rows_on_device, out);
  });
}

void Executor::ForwardMtp(std::vector<int32_t> next_ids, StepTables tables) {
  WindowRanges ranges = WindowRanges::Causal(tables.positions, config().window);
  const Batch batch =
      Upload(std::move(next_ids), std::move(tables), std::move(ranges), StepLayers::kDraft);
  model_.ForwardMtp(*stream_, batch, caches());
}

Status Executor::MtpLogits(std::span<const int32_t> rows, std::vector<float>* logits) {
  return DownloadLogits(rows, logits, [&](Tensor rows_on_device, Tensor out) {
    model_.MtpLogits(*stream_, rows_on_device, out);
  });
}

Result<DsparkDraft> Executor::DraftBlock(int32_t known, StepTables tables) {
  CACHALOT_CHECK(config().dspark && draft_context_);
  const int64_t block = config().dspark->block_size;
  const int64_t vocab = config().vocab_size;
  CACHALOT_CHECK(tables.num_requests == 1 && tables.num_tokens == block);
  std::vector<int32_t> ids(static_cast<size_t>(block),
                           static_cast<int32_t>(config().dspark->noise_token));
  ids[0] = known;
  WindowRanges ranges = WindowRanges::Block(tables.start_pos[0], block, config().window);
  const Batch batch =
      Upload(std::move(ids), std::move(tables), std::move(ranges), StepLayers::kDraft);
  const Tensor logits = logits_.As(DType::kF32, {block, vocab});
  model_.DraftBlock(*stream_, batch, caches(), logits);

  // Each position's Markov term needs the token chosen at the one before it.
  DsparkDraft draft;
  draft.logits.resize(static_cast<size_t>(block * vocab));
  const Tensor previous_on_device = previous_.As(DType::kI32, {1});
  const Tensor confidence_on_device = confidence_.As(DType::kF32, {1, 1});
  for (int64_t i = 0; i < block; ++i) {
    const int32_t previous = i == 0 ? known : draft.ids.back();
    const Tensor row = logits.Rows(i, i + 1);
    const std::span<float> row_on_host =
        std::span(draft.logits).subspan(static_cast<size_t>(i * vocab), static_cast<size_t>(vocab));
    float confidence = 0;
    stream_->Upload(&previous, previous_on_device);
    model_.DraftMarkov(*stream_, i, previous_on_device, row, confidence_on_device);
    stream_->Download(row, row_on_host.data());
    stream_->Download(confidence_on_device, &confidence);
    CACHALOT_RETURN_IF_ERROR(stream_->Synchronize());
    draft.ids.push_back(ArgMax(row_on_host));
    draft.confidence.push_back(confidence);
  }
  return draft;
}

}  // namespace cachalot
