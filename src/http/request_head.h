// The head of a request, strictly: what two readers could understand in two ways is refused
// (RFC 9110 and 9112; server.H5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "http/http.h"

namespace cachalot {

// Why a request is not served: a status from 400 on.
struct HttpFault {
  int status = 400;
  std::string message;
  std::string path;  // empty where it was not understood
};

struct RequestLine {
  std::string method;
  std::string path;  // percent signs decoded
  std::string query;
  int minor_version = 1;  // of HTTP/1
};

struct RequestHead {
  HttpRequest request;  // without body and peer
  int minor_version = 1;
  bool keep_alive = true;
  bool expects_continue = false;
  bool chunked = false;
  uint64_t content_length = 0;  // where not chunked; UINT64_MAX: more digits than any bound
};

// `line` is without its end.
tl::expected<RequestLine, HttpFault> ParseRequestLine(std::string_view line);
// From the first line to the empty one, with it.
tl::expected<RequestHead, HttpFault> ParseRequestHead(std::string_view head);

// Whether `line`, without its end, is a field ("name: value"), if an unknown one.
bool IsField(std::string_view line);

// The fault of the first byte from `from` on that no head may have, be it complete or not: control
// characters, CR or LF outside of a line's end. A last CR may still get its LF.
std::optional<HttpFault> FindIllegalByte(std::string_view head, size_t from = 0);

// nullopt: a percent sign without two hex digits, or the character NUL.
std::optional<std::string> DecodePercent(std::string_view text);

}  // namespace cachalot
