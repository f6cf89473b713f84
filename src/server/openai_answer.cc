#include "server/openai_answer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "server/sse.h"

namespace cachalot {
namespace {

constexpr const char* kFingerprint = "fp_cachalot";

std::string FrontOf(const OpenAiHead& head, std::string_view object) {
  std::string front = DumpJson(OpenAiHeadBody(head, object));
  front.pop_back();
  return fmt::format("data: {},\"choices\":[", front);
}

}  // namespace

Result<OpenAiStreamFields> ReadOpenAiStreamFields(const JsonFields& fields) {
  OpenAiStreamFields read;
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(fields.Flag("stream"), &read.stream));
  CACHALOT_ASSIGN_OR_RETURN(const OrderedJson* object, fields.Object("stream_options"));
  if (object == nullptr) {
    return read;
  }
  const JsonFields options = fields.Within("stream_options", *object);
  CACHALOT_RETURN_IF_ERROR(SetIfPresent(options.Flag("include_usage"), &read.include_usage));
  CACHALOT_RETURN_IF_ERROR(
      SetIfPresent(options.Flag("continuous_usage_stats"), &read.continuous_usage));
  return read;
}

OrderedJson OpenAiHeadBody(const OpenAiHead& head, std::string_view object) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", kFingerprint}};
}

OrderedJson OpenAiUsageBody(const AnswerUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

std::string_view OpenAiFinishReason(AnswerFinish finish) {
  switch (finish) {
    case AnswerFinish::kToolCalls:
      return "tool_calls";
    case AnswerFinish::kLength:
      return "length";
    default:
      return "stop";
  }
}

std::optional<ApiError> FaultOfFinish(AnswerFinish finish) {
  switch (finish) {
    case AnswerFinish::kCancelled:
      return ApiError(503, "the server ended before the answer was complete", "cancelled");
    case AnswerFinish::kDeadline:
      return ApiError(504, "the answer was not complete within the request's timeout", "timeout");
    case AnswerFinish::kFailed:
      return ApiError(500, "the device failed before the answer was complete", "device_failed");
    default:
      return std::nullopt;
  }
}

double OpenAiLogprob(float logprob) {
  constexpr double kLeastShown = -9999;
  return std::isinf(logprob) ? kLeastShown : logprob;
}

OpenAiStream::OpenAiStream(std::shared_ptr<HttpExchange> exchange, const OpenAiHead& head,
                           std::string_view object, const OpenAiStreamFields& fields)
    : exchange_(std::move(exchange)), fields_(fields), front_(FrontOf(head, object)) {}

void OpenAiStream::Begin() {
  HttpStream stream;
  stream.life_sign = kSseComment;
  exchange_->BeginStream(std::move(stream));
}

void OpenAiStream::WriteChoice(const OrderedJson& choice) {
  std::string usage;
  if (fields_.continuous_usage) {
    usage = ",\"usage\":" + DumpJson(OpenAiUsageBody(usage_));
  } else if (fields_.include_usage) {
    usage = ",\"usage\":null";
  }
  exchange_->Write(fmt::format("{}{}]{}}}\n\n", front_, DumpJson(choice), usage));
}

void OpenAiStream::WriteMember(std::string_view name, const OrderedJson& value) {
  exchange_->Write(fmt::format("{}],\"{}\":{}}}\n\n", front_, name, DumpJson(value)));
}

void OpenAiStream::End(const AnswerUsage& usage, const std::optional<ApiError>& fault) {
  if (fault) {
    exchange_->Write(SseData(ErrorBody(Dialect::kOpenAi, *fault)));
  } else if (fields_.include_usage || fields_.continuous_usage) {
    WriteMember("usage", OpenAiUsageBody(usage));
  }
  exchange_->Write(std::string(kSseDone));
  exchange_->Finish();
}

}  // namespace cachalot
