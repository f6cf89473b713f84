#include "server/api_error.h"

#include "io/utf8.h"

namespace cachalot {
namespace {

int HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kDataLoss:
    case StatusCode::kUnsupported:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kResourceExhausted:
      return 429;
    default:
      return 500;
  }
}

std::string_view OpenAiType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string_view AnthropicType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
    case 504:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

OrderedJson TextOrNull(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

}  // namespace

ApiError::ApiError(const Error& error)
    : status(HttpStatusOf(error.code)), message(error.message), param(error.subject) {}

OrderedJson ErrorBody(Dialect dialect, const ApiError& error) {
  const std::string message = ReplaceInvalidUtf8(error.message);
  if (dialect == Dialect::kAnthropic) {
    return {{"type", "error"},
            {"error", {{"type", AnthropicType(error.status)}, {"message", message}}}};
  }
  return {{"error",
           {{"message", message},
            {"type", OpenAiType(error.status)},
            {"param", TextOrNull(error.param)},
            {"code", TextOrNull(error.code)}}}};
}

HttpResponse ErrorResponse(Dialect dialect, const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = DumpJson(ErrorBody(dialect, error));
  if (error.status == 429 || error.status == 503) {
    response.headers.emplace_back("Retry-After", "1");
  }
  return response;
}

Dialect DialectOfPath(std::string_view path) {
  return path.starts_with("/v1/messages") ? Dialect::kAnthropic : Dialect::kOpenAi;
}

}  // namespace cachalot
