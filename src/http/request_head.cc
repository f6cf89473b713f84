#include "http/request_head.h"

#include <algorithm>
#include <utility>

namespace cachalot {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kMaxMethod = 32;

tl::unexpected<HttpFault> Bad(std::string message, std::string path = {}) {
  return tl::unexpected(HttpFault{400, std::move(message), std::move(path)});
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetterOrDigit(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsOneOf(char c, std::string_view characters) {
  return characters.find(c) != std::string_view::npos;
}
bool IsTokenCharacter(char c) { return IsLetterOrDigit(c) || IsOneOf(c, "!#$%&'*+-.^_`|~"); }
bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter);
}

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view TrimBlanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Whether a value that is a list with commas has `item`, which is in lower case.
bool HasItem(std::string_view list, std::string_view item) {
  while (true) {
    const size_t comma = list.find(',');
    if (Lower(TrimBlanks(list.substr(0, comma))) == item) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

// A name or an address, with a port or without; empty is allowed.
bool IsHost(std::string_view host) {
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return IsLetterOrDigit(c) || IsOneOf(c, "-._~!$&'()*+;=:[]%"); });
}

// How long the body is, from fields that must not contradict one another.
tl::expected<void, HttpFault> ReadFraming(RequestHead& head) {
  const std::string& path = head.request.path;
  int lengths = 0;
  int encodings = 0;
  for (const auto& [name, value] : head.request.headers) {
    if (name == "content-length") {
      ++lengths;
      if (value.empty() || !std::all_of(value.begin(), value.end(), IsDigit)) {
        return Bad("the Content-Length is no number", path);
      }
      head.content_length = value.size() > 18 ? UINT64_MAX : std::stoull(value);
    } else if (name == "transfer-encoding") {
      ++encodings;
      if (Lower(value) != "chunked") {
        return Bad("the only Transfer-Encoding that is understood is chunked", path);
      }
      head.chunked = true;
    }
  }
  if (lengths > 1) return Bad("there is more than one Content-Length", path);
  if (encodings > 1) return Bad("there is more than one Transfer-Encoding", path);
  if (lengths + encodings > 1) return Bad("both Content-Length and Transfer-Encoding", path);
  if (head.chunked && head.minor_version == 0) return Bad("HTTP/1.0 has no chunks", path);
  return {};
}

tl::expected<void, HttpFault> ReadHost(const RequestHead& head) {
  int hosts = 0;
  for (const auto& [name, value] : head.request.headers) {
    if (name != "host") continue;
    ++hosts;
    if (!IsHost(value)) return Bad("the Host is none", head.request.path);
  }
  if (hosts > 1) return Bad("there is more than one Host", head.request.path);
  if (hosts == 0 && head.minor_version > 0) return Bad("there is no Host", head.request.path);
  return {};
}

tl::expected<void, HttpFault> ReadConnection(RequestHead& head) {
  bool close = false;
  bool keep_alive = false;
  for (const auto& [name, value] : head.request.headers) {
    if (name == "connection") {
      close |= HasItem(value, "close");
      keep_alive |= HasItem(value, "keep-alive");
    } else if (name == "expect" && head.minor_version > 0) {
      if (Lower(value) != "100-continue") {
        return tl::unexpected(HttpFault{417, "only 100-continue is expected", head.request.path});
      }
      head.expects_continue = true;
    }
  }
  head.keep_alive = !close && (keep_alive || head.minor_version > 0);
  return {};
}

// "/path?query", or, as proxies are asked, "http://host/path?query"; "*" for OPTIONS.
tl::expected<void, HttpFault> ReadTarget(std::string_view target, RequestLine& line) {
  for (const char c : target) {
    if (c <= ' ' || c > '~' || c == '#') {
      return Bad("the target has a character that must be percent-encoded");
    }
  }
  if (target == "*" && line.method == "OPTIONS") {
    line.path = "*";
    return {};
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (Lower(target.substr(0, scheme.size())) != scheme) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0 || !IsHost(target.substr(0, end))) return Bad("the target's host is none");
    target.remove_prefix(end);
    if (target.empty() || target[0] == '?') line.path = "/";
    break;
  }
  if (line.path.empty() && (target.empty() || target[0] != '/')) {
    return Bad("the target is no path");
  }
  const size_t question = std::min(target.find('?'), target.size());
  auto path = DecodePercent(target.substr(0, question));
  if (!path) return Bad("the path has a percent sign that encodes nothing");
  if (!path->empty()) line.path = *std::move(path);
  if (question < target.size()) line.query = target.substr(question + 1);
  return {};
}

tl::expected<std::pair<std::string_view, std::string_view>, HttpFault> SplitField(
    std::string_view line) {
  if (line[0] == ' ' || line[0] == '\t') return Bad("a header goes on in another line");
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Bad("a header has no name, or one that is none");
  }
  return std::pair(line.substr(0, colon), TrimBlanks(line.substr(colon + 1)));
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& header : headers) {
    if (header.first == name) return header.second;
  }
  return {};
}

std::optional<std::string> DecodePercent(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    decoded += static_cast<char>(16 * high + low);
    i += 2;
  }
  return decoded;
}

std::optional<HttpFault> FindIllegalByte(std::string_view head, size_t from) {
  for (size_t i = from; i < head.size(); ++i) {
    const auto c = static_cast<unsigned char>(head[i]);
    if (c == '\n' && (i == 0 || head[i - 1] != '\r')) {
      return HttpFault{400, "a line ends without CR", {}};
    }
    if (i > 0 && head[i - 1] == '\r' && c != '\n') {
      return HttpFault{400, "a CR is not at the end of a line", {}};
    }
    if ((c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f) {
      return HttpFault{400, "a control character in the head", {}};
    }
  }
  return std::nullopt;
}

tl::expected<RequestLine, HttpFault> ParseRequestLine(std::string_view line) {
  RequestLine parsed;
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return Bad("the first line is not method, target and version");
  }
  parsed.method = line.substr(0, first);
  if (!IsToken(parsed.method) || parsed.method.size() > kMaxMethod) return Bad("no such method");
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return Bad("the version is neither HTTP/1.1 nor HTTP/1.0");
  }
  parsed.minor_version = version.back() - '0';
  if (auto read = ReadTarget(line.substr(first + 1, last - first - 1), parsed); !read) {
    return tl::unexpected(std::move(read).error());
  }
  return parsed;
}

bool IsField(std::string_view line) {
  return !line.empty() && SplitField(line) && !FindIllegalByte(line);
}

tl::expected<RequestHead, HttpFault> ParseRequestHead(std::string_view head) {
  if (auto fault = FindIllegalByte(head)) return tl::unexpected(*std::move(fault));
  const size_t line_end = head.find(kLineEnd);
  if (line_end == std::string_view::npos) return Bad("the head has no end");
  auto line = ParseRequestLine(head.substr(0, line_end));
  if (!line) return tl::unexpected(std::move(line).error());

  RequestHead parsed;
  parsed.minor_version = line->minor_version;
  parsed.request.method = std::move(line->method);
  parsed.request.path = std::move(line->path);
  parsed.request.query = std::move(line->query);
  head.remove_prefix(line_end + kLineEnd.size());
  while (true) {
    const size_t end = head.find(kLineEnd);
    if (end == std::string_view::npos) return Bad("the head has no end", parsed.request.path);
    if (end == 0) break;
    const auto field = SplitField(head.substr(0, end));
    if (!field) return Bad(field.error().message, parsed.request.path);
    parsed.request.headers.emplace_back(Lower(field->first), field->second);
    head.remove_prefix(end + kLineEnd.size());
  }
  if (head.size() != kLineEnd.size()) return Bad("the head has two ends", parsed.request.path);
  for (const auto& read : {ReadHost(parsed), ReadFraming(parsed), ReadConnection(parsed)}) {
    if (!read) return tl::unexpected(read.error());
  }
  return parsed;
}

}  // namespace cachalot
