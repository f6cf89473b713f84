#include "engine/generate.h"

#include <algorithm>

namespace cachalot {

Result<GenerateEnd> Generate(ModelRunner& runner, RequestSlot slot, std::span<const int32_t> prompt,
                             const GenerateOptions& options, const GenerateHooks& hooks) {
  CACHALOT_RETURN_IF_ERROR(CheckSamplingParams(options.sampling));
  CACHALOT_RETURN_IF_ERROR(CheckSamplingIds(options.sampling, runner.config().vocab_size));
  if (prompt.empty()) {
    return MakeError(StatusCode::kInvalidArgument, "the prompt has no tokens");
  }
  const auto total = static_cast<int64_t>(prompt.size());
  const int64_t room = runner.options().max_context - runner.length(slot);
  if (total > room) {
    return MakeError(StatusCode::kInvalidArgument,
                     "the prompt has {} tokens, but only {} of the context's {} are free", total,
                     room, runner.options().max_context);
  }
  const auto cancelled = [&] { return hooks.cancelled && hooks.cancelled(); };

  int64_t last_chunk = 0;
  for (int64_t begin = 0; begin < total; begin += last_chunk) {
    if (cancelled()) {
      return GenerateEnd::kCancelled;
    }
    last_chunk = std::min(runner.options().max_step_tokens, total - begin);
    const RequestTokens step = {
        slot, prompt.subspan(static_cast<size_t>(begin), static_cast<size_t>(last_chunk))};
    CACHALOT_RETURN_IF_ERROR(runner.Forward({&step, 1}));
    if (hooks.on_prefill) {
      hooks.on_prefill(begin + last_chunk, total);
    }
  }

  const std::vector<int32_t>& stop_ids = options.sampling.stop_ids;
  TokenHistory history(options.sampling, prompt);
  Sampler sampler;
  std::vector<float> logits;
  int64_t last_row = last_chunk - 1;
  for (int64_t step = 0; step < options.max_new_tokens; ++step) {
    CACHALOT_RETURN_IF_ERROR(runner.Logits(last_row, last_row + 1, &logits));
    const int32_t id = sampler.Sample(logits, options.sampling, history, step);
    if (std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end()) {
      return GenerateEnd::kStopToken;
    }
    history.Add(id);
    hooks.on_token(id);
    if (step + 1 == options.max_new_tokens || runner.length(slot) == runner.options().max_context) {
      break;
    }
    if (cancelled()) {
      return GenerateEnd::kCancelled;
    }
    const RequestTokens next = {slot, {&id, 1}};
    CACHALOT_RETURN_IF_ERROR(runner.Forward({&next, 1}));
    last_row = 0;
  }
  return GenerateEnd::kLength;
}

}  // namespace cachalot
