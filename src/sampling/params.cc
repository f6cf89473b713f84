#include "sampling/params.h"

namespace cachalot {
namespace {

Status CheckRange(const char* name, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    return MakeError(StatusCode::kInvalidArgument, "{} is {}, expected {} to {}", name, value, low,
                     high);
  }
  return {};
}

Status CheckCount(const char* name, int64_t value) {
  if (value < 0) {
    return MakeError(StatusCode::kInvalidArgument, "{} is {}, expected 0 or more", name, value);
  }
  return {};
}

Status CheckId(const char* name, int32_t id, int64_t vocab_size) {
  if (id < 0 || id >= vocab_size) {
    return MakeError(StatusCode::kInvalidArgument, "{} names token {}, expected 0 to {}", name, id,
                     vocab_size - 1);
  }
  return {};
}

}  // namespace

Status CheckSamplingParams(const SamplingParams& params) {
  CACHALOT_RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0, 100));
  CACHALOT_RETURN_IF_ERROR(CheckCount("top_k", params.top_k));
  CACHALOT_RETURN_IF_ERROR(CheckRange("top_p", params.top_p, 0, 1));
  CACHALOT_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  CACHALOT_RETURN_IF_ERROR(CheckRange("frequency_penalty", params.frequency_penalty, -2, 2));
  CACHALOT_RETURN_IF_ERROR(CheckRange("presence_penalty", params.presence_penalty, -2, 2));
  if (!(params.repetition_penalty > 0 && params.repetition_penalty <= 10)) {
    return MakeError(StatusCode::kInvalidArgument,
                     "repetition_penalty is {}, expected above 0 and at most 10",
                     params.repetition_penalty);
  }
  if (params.logit_bias.size() > static_cast<size_t>(kMaxLogitBiases)) {
    return MakeError(StatusCode::kInvalidArgument, "logit_bias has {} tokens, expected at most {}",
                     params.logit_bias.size(), kMaxLogitBiases);
  }
  for (const LogitBias& entry : params.logit_bias) {
    if (!(entry.bias >= -100 && entry.bias <= 100)) {
      return MakeError(StatusCode::kInvalidArgument,
                       "logit_bias of token {} is {}, expected -100 to 100", entry.id, entry.bias);
    }
  }
  return CheckCount("min_new_tokens", params.min_new_tokens);
}

Status CheckSamplingIds(const SamplingParams& params, int64_t vocab_size) {
  for (const LogitBias& entry : params.logit_bias) {
    CACHALOT_RETURN_IF_ERROR(CheckId("logit_bias", entry.id, vocab_size));
  }
  for (const int32_t id : params.stop_ids) {
    CACHALOT_RETURN_IF_ERROR(CheckId("stop_ids", id, vocab_size));
  }
  if (params.banned_ids) {
    for (const int32_t id : *params.banned_ids) {
      CACHALOT_RETURN_IF_ERROR(CheckId("banned_ids", id, vocab_size));
    }
  }
  return {};
}

}  // namespace cachalot
