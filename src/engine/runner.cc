#include "engine/runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/cache_plan.h"
#include "sampling/likeliest.h"

namespace cachalot {
namespace {

// Rows of logits made at once: a vocabulary is wide, and callers want few rows or all of them one
// after the other.
constexpr int64_t kLogitRows = 32;

}  // namespace

ModelRunner::ModelRunner(const RunnerOptions& options, std::unique_ptr<Stream> stream, Model model,
                         std::unique_ptr<CachePools> pools, const CacheGeometry& geometry,
                         BatchBuilder builder)
    : options_(options),
      stream_(std::move(stream)),
      model_(std::move(model)),
      pools_(std::move(pools)),
      cache_(geometry),
      builder_(std::move(builder)),
      lengths_(static_cast<size_t>(options.max_requests) + 1, 0) {
  for (int64_t layer = 0; layer < config().num_layers; ++layer) {
    layer_caches_.push_back(pools_->layer(layer));
  }
  for (int64_t layer = 0; layer < NumDraftLayers(config()); ++layer) {
    layer_caches_.push_back(pools_->draft_layer(layer));
  }
}

Result<ModelRunner> ModelRunner::New(Device& device, ModelConfig config, Weights weights,
                                     const RunnerOptions& options) {
  if (options.max_context < 1 || options.max_context > config.max_position) {
    return MakeError(StatusCode::kInvalidArgument,
                     "a context of {} tokens asked for, expected 1 to the model's {}",
                     options.max_context, config.max_position);
  }
  const int64_t draft_block = config.dspark ? config.dspark->block_size : 0;
  const int64_t step_tokens = std::max(options.max_step_tokens, draft_block);
  const int64_t context = options.max_context + draft_block;
  const int64_t vocab = config.vocab_size;
  const CacheShape shape = CacheShapeOf(config);
  std::unique_ptr<Stream> stream = device.NewStream();
  CACHALOT_ASSIGN_OR_RETURN(
      const CachePlan plan,
      PlanForTokens(shape, RowLayoutsOf(device, shape), {.max_requests = options.max_requests},
                    options.max_requests * RoundUpTo(context, kPageTokens),
                    WindowTokensFor(shape, options.max_requests, step_tokens)));
  CacheFactory factory;
  CACHALOT_ASSIGN_OR_RETURN(std::unique_ptr<CachePools> pools,
                            CachePools::Create(device, *stream, shape, plan, factory));
  CACHALOT_ASSIGN_OR_RETURN(
      BatchBuilder builder,
      BatchBuilder::New(device, plan.geometry, step_tokens, options.max_requests, context));
  CACHALOT_ASSIGN_OR_RETURN(Model model, Model::New(device, std::move(config), std::move(weights),
                                                    step_tokens, kLogitRows));
  ModelRunner runner(options, std::move(stream), std::move(model), std::move(pools), plan.geometry,
                     std::move(builder));
  const int64_t rows = std::max(kLogitRows, draft_block);
  CACHALOT_ASSIGN_OR_RETURN(runner.logits_, device.Allocate(rows * vocab * SizeOf(DType::kF32)));
  CACHALOT_ASSIGN_OR_RETURN(runner.logit_rows_, device.Allocate(kLogitRows * SizeOf(DType::kI32)));
  CACHALOT_ASSIGN_OR_RETURN(runner.previous_, device.Allocate(SizeOf(DType::kI32)));
  CACHALOT_ASSIGN_OR_RETURN(runner.confidence_, device.Allocate(SizeOf(DType::kF32)));
  return runner;
}

Result<RequestSlot> ModelRunner::Open() {
  const std::optional<RequestSlot> slot = cache_.TakeRequest();
  if (!slot) {
    return MakeError(StatusCode::kResourceExhausted, "all {} request slots are taken",
                     options_.max_requests);
  }
  pools_->ClearRequest(*stream_, *slot);
  lengths_[static_cast<size_t>(slot->value)] = 0;
  open_.push_back(*slot);
  return *slot;
}

void ModelRunner::Close(RequestSlot slot) {
  cache_.Free(slot);
  std::erase(open_, slot);
}

Status ModelRunner::CheckIds(std::span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= config().vocab_size) {
      return MakeError(StatusCode::kInvalidArgument,
                       "token {} of the input has id {}, expected 0 to {}", i, ids[i],
                       config().vocab_size - 1);
    }
  }
  return {};
}

ModelCaches ModelRunner::caches() const {
  const std::span<const LayerCache> all = layer_caches_;
  const auto layers = static_cast<size_t>(config().num_layers);
  return {all.first(layers), all.subspan(layers)};
}

Result<StepTables> ModelRunner::Grow(std::span<const StepRequest> steps) {
  std::vector<Growth> growths;
  int64_t tokens = 0;
  for (const StepRequest& step : steps) {
    if (step.start_pos.value + step.num_tokens > options_.max_context) {
      return MakeError(StatusCode::kResourceExhausted,
                       "{} tokens after {} do not fit a context of {}", step.num_tokens,
                       step.start_pos.value, options_.max_context);
    }
    growths.push_back({.slot = step.slot, .num_tokens = step.num_tokens});
    tokens += step.num_tokens;
  }
  CACHALOT_CHECK_LE(tokens, options_.max_step_tokens);
  // Not right after a step: its draft layers may still run over the same tokens.
  for (const RequestSlot slot : open_) {
    cache_.EvictWindow(slot, length(slot));
  }
  const auto grown = cache_.Extend(growths);
  if (!grown) {
    return MakeError(StatusCode::kResourceExhausted, "cache pool {} needs {} pages and has {}",
                     NameOf(grown.error().pool), grown.error().need, grown.error().have);
  }
  return BuildStepTables(cache_, steps);
}

Status ModelRunner::Forward(std::span<const RequestTokens> requests) {
  std::vector<StepRequest> steps;
  std::vector<int32_t> ids;
  for (const RequestTokens& request : requests) {
    CACHALOT_RETURN_IF_ERROR(CheckIds(request.ids));
    steps.push_back({request.slot, TokenPos(static_cast<int32_t>(length(request.slot))),
                     static_cast<int64_t>(request.ids.size())});
    ids.insert(ids.end(), request.ids.begin(), request.ids.end());
  }
  CACHALOT_ASSIGN_OR_RETURN(StepTables tables, Grow(steps));
  WindowRanges ranges = WindowRanges::Causal(tables.positions, config().window);
  const Batch batch =
      builder_.Build(*stream_, std::move(ids), std::move(tables), std::move(ranges));
  model_.Forward(*stream_, batch, caches(), options_.draft_context);
  CACHALOT_RETURN_IF_ERROR(stream_->Synchronize());
  for (const StepRequest& step : steps) {
    lengths_[static_cast<size_t>(step.slot.value)] += step.num_tokens;
  }
  return {};
}

template <typename RunLogits>
Status ModelRunner::DownloadLogits(int64_t begin, int64_t end, std::vector<float>* logits,
                                   const RunLogits& run) {
  const int64_t vocab = config().vocab_size;
  logits->resize(static_cast<size_t>((end - begin) * vocab));
  std::vector<int32_t> rows;
  for (int64_t first = begin; first < end; first += kLogitRows) {
    const int64_t count = std::min(kLogitRows, end - first);
    rows.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      rows[static_cast<size_t>(i)] = static_cast<int32_t>(first + i);
    }
    const Tensor rows_on_device = logit_rows_.As(DType::kI32, {count});
    const Tensor logits_on_device = logits_.As(DType::kF32, {count, vocab});
    stream_->Upload(rows.data(), rows_on_device);
    run(rows_on_device, logits_on_device);
    stream_->Download(logits_on_device, logits->data() + (first - begin) * vocab);
    CACHALOT_RETURN_IF_ERROR(stream_->Synchronize());
  }
  return {};
}

Status ModelRunner::Logits(int64_t begin, int64_t end, std::vector<float>* logits) {
  return DownloadLogits(begin, end, logits,
                        [&](Tensor rows, Tensor out) { model_.Logits(*stream_, rows, out); });
}

Status ModelRunner::ForwardMtp(RequestSlot slot, std::span<const int32_t> next_ids) {
  CACHALOT_RETURN_IF_ERROR(CheckIds(next_ids));
  const auto count = static_cast<int64_t>(next_ids.size());
  const int64_t start = length(slot) - model_.num_tokens();
  const StepRequest step = {slot, TokenPos(static_cast<int32_t>(start)), count};
  StepTables tables = BuildStepTables(cache_, {&step, 1});
  WindowRanges ranges = WindowRanges::Causal(tables.positions, config().window);
  const Batch batch = builder_.Build(*stream_, {next_ids.begin(), next_ids.end()},
                                     std::move(tables), std::move(ranges));
  model_.ForwardMtp(*stream_, batch, caches());
  return stream_->Synchronize();
}

Status ModelRunner::MtpLogits(int64_t begin, int64_t end, std::vector<float>* logits) {
  return DownloadLogits(begin, end, logits,
                        [&](Tensor rows, Tensor out) { model_.MtpLogits(*stream_, rows, out); });
}

Result<ModelRunner::Draft> ModelRunner::DraftBlock(RequestSlot slot, int32_t known) {
  CACHALOT_CHECK(config().dspark && options_.draft_context);
  CACHALOT_RETURN_IF_ERROR(CheckIds({&known, 1}));
  const int64_t block = config().dspark->block_size;
  const int64_t start = length(slot);
  const int64_t vocab = config().vocab_size;
  const Growth growth = {.slot = slot, .num_tokens = block};
  if (!cache_.Extend({&growth, 1})) {
    return MakeError(StatusCode::kResourceExhausted, "no cache pages for a draft of {} tokens",
                     block);
  }
  std::vector<int32_t> ids(static_cast<size_t>(block),
                           static_cast<int32_t>(config().dspark->noise_token));
  ids[0] = known;
  const StepRequest step = {slot, TokenPos(static_cast<int32_t>(start)), block};
  const Batch batch = builder_.Build(*stream_, std::move(ids), BuildStepTables(cache_, {&step, 1}),
                                     WindowRanges::Block(start, block, config().window));
  const Tensor logits = logits_.As(DType::kF32, {block, vocab});
  model_.DraftBlock(*stream_, batch, caches(), logits);

  // Each position's Markov term needs the token chosen at the one before it.
  Draft draft;
  draft.logits.resize(static_cast<size_t>(block * vocab));
  const Tensor previous_on_device = previous_.As(DType::kI32, {1});
  const Tensor confidence_on_device = confidence_.As(DType::kF32, {1, 1});
  Status status;
  for (int64_t i = 0; i < block && status; ++i) {
    const int32_t previous = i == 0 ? known : draft.ids.back();
    const Tensor row = logits.Rows(i, i + 1);
    const std::span<float> row_on_host =
        std::span(draft.logits).subspan(static_cast<size_t>(i * vocab), static_cast<size_t>(vocab));
    float confidence = 0;
    stream_->Upload(&previous, previous_on_device);
    model_.DraftMarkov(*stream_, i, previous_on_device, row, confidence_on_device);
    stream_->Download(row, row_on_host.data());
    stream_->Download(confidence_on_device, &confidence);
    status = stream_->Synchronize();
    draft.ids.push_back(ArgMax(row_on_host));
    draft.confidence.push_back(confidence);
  }
  cache_.Trim(slot, start);
  CACHALOT_RETURN_IF_ERROR(std::move(status));
  return draft;
}

}  // namespace cachalot
