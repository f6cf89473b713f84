// What a client is told when it cannot have what it asked for, in the shape of its dialect.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "http/http.h"
#include "io/json.h"

namespace cachalot {

enum class Dialect : uint8_t { kOpenAi, kAnthropic };

struct ApiError {
  ApiError() = default;
  // kInvalidArgument and kDataLoss (of a body): 400; kUnsupported: 400; kResourceExhausted: 429;
  // others: 500. The error's subject is the param.
  ApiError(
      const Error& error);  // NOLINT(google-explicit-constructor): for CACHALOT_RETURN_IF_ERROR
  ApiError(int http_status, std::string text, std::string error_code = {}, std::string field = {})
      : status(http_status),
        message(std::move(text)),
        code(std::move(error_code)),
        param(std::move(field)) {}

  int status = 500;     // of HTTP
  std::string message;  // holds at most 200 bytes of what the client sent
  std::string code;     // OpenAI's: "context_length_exceeded"; empty: null
  std::string param;    // the field at fault; empty: null
};

template <typename T>
using ApiResult = tl::expected<T, ApiError>;
using ApiStatus = ApiResult<void>;

// {"error": {"message", "type", "param", "code"}} or {"type": "error", "error": {"type", "message"}}.
OrderedJson ErrorBody(Dialect dialect, const ApiError& error);
// With Retry-After where trying again later makes sense.
HttpResponse ErrorResponse(Dialect dialect, const ApiError& error);
// By the path that was asked for: Anthropic's are those under /v1/messages.
Dialect DialectOfPath(std::string_view path);

}  // namespace cachalot
