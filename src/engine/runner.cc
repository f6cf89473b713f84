#include "engine/runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "engine/cache_plan.h"
#include "model/place_weights.h"

namespace cachalot {
namespace {

std::vector<int32_t> RowsFrom(int64_t begin, int64_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(begin));
  return rows;
}

}  // namespace

ModelRunner::ModelRunner(const RunnerOptions& options, const CacheGeometry& geometry,
                         Executor executor)
    : options_(options),
      cache_(geometry),
      executor_(std::move(executor)),
      lengths_(static_cast<size_t>(options.max_requests) + 1, 0) {}

Result<ModelRunner> ModelRunner::New(Device& device, ModelConfig config, Weights weights,
                                     const RunnerOptions& options) {
  CACHALOT_RETURN_IF_ERROR(CheckContext(config, options.max_context));
  const int64_t draft_block = DraftBlockTokens(config);
  const int64_t step_tokens = std::max(options.max_step_tokens, draft_block);
  const CacheShape shape = CacheShapeOf(ConfigOn(device, config));
  CACHALOT_ASSIGN_OR_RETURN(
      const CachePlan plan,
      PlanForTokens(
          shape, RowLayoutsOf(device, shape),
          {.max_requests = options.max_requests,
           .step_tokens = step_tokens + draft_block,  // a draft comes on top of its step
           .state = options.state},
          options.max_requests * RoundUpTo(options.max_context + draft_block, kPageTokens),
          WindowTokensFor(shape, options.max_requests, step_tokens)));
  CACHALOT_ASSIGN_OR_RETURN(Executor executor,
                            Executor::New(device, std::move(config), std::move(weights), plan,
                                          {.max_context = options.max_context,
                                           .max_requests = options.max_requests,
                                           .max_step_tokens = options.max_step_tokens,
                                           .draft_context = options.draft_context}));
  return ModelRunner(options, plan.geometry, std::move(executor));
}

Result<RequestSlot> ModelRunner::Open() {
  const std::optional<RequestSlot> slot = cache_.TakeRequest();
  if (!slot) {
    return MakeError(StatusCode::kResourceExhausted, "all {} request slots are taken",
                     options_.max_requests);
  }
  executor_.pools().ClearRequest(executor_.stream(), *slot);
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
    cache_.EvictPast(slot, length(slot));
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
  executor_.Forward(std::move(ids), std::move(tables));
  CACHALOT_RETURN_IF_ERROR(executor_.stream().Synchronize());
  for (const StepRequest& step : steps) {
    lengths_[static_cast<size_t>(step.slot.value)] += step.num_tokens;
  }
  return {};
}

Status ModelRunner::Logits(int64_t begin, int64_t end, std::vector<float>* logits) {
  return executor_.Logits(RowsFrom(begin, end), logits);
}

Status ModelRunner::ForwardMtp(RequestSlot slot, std::span<const int32_t> next_ids) {
  CACHALOT_RETURN_IF_ERROR(CheckIds(next_ids));
  const int64_t start = length(slot) - executor_.num_tokens();
  const StepRequest step = {slot, TokenPos(static_cast<int32_t>(start)),
                            static_cast<int64_t>(next_ids.size())};
  executor_.ForwardMtp({next_ids.begin(), next_ids.end()}, BuildStepTables(cache_, {&step, 1}));
  return executor_.stream().Synchronize();
}

Status ModelRunner::MtpLogits(int64_t begin, int64_t end, std::vector<float>* logits) {
  return executor_.MtpLogits(RowsFrom(begin, end), logits);
}

Result<ModelRunner::Draft> ModelRunner::DraftBlock(RequestSlot slot, int32_t known) {
  CACHALOT_RETURN_IF_ERROR(CheckIds({&known, 1}));
  const int64_t block = DraftBlockTokens(config());
  const int64_t start = length(slot);
  const Growth growth = {.slot = slot, .num_tokens = block};
  if (!cache_.Extend({&growth, 1})) {
    return MakeError(StatusCode::kResourceExhausted, "no cache pages for a draft of {} tokens",
                     block);
  }
  const StepRequest step = {slot, TokenPos(static_cast<int32_t>(start)), block};
  Result<Draft> draft = executor_.DraftBlock(known, BuildStepTables(cache_, {&step, 1}));
  cache_.Trim(slot, start);
  return draft;
}

}  // namespace cachalot
