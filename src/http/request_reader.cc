#include "http/request_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace cachalot {
namespace {

constexpr size_t kMaxChunkLine = 4096;
constexpr uint64_t kMaxTrailerBytes = 16 << 10;

// "1a", or "1a;extension"; nullopt where it is no number below 2^60.
std::optional<uint64_t> ParseChunkSize(std::string_view line) {
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const auto digits = static_cast<size_t>(end - line.data());
  if (error != std::errc{} || digits > 15) return std::nullopt;
  const size_t next = line.find_first_not_of(" \t", digits);
  if (next != std::string_view::npos && line[next] != ';') return std::nullopt;
  if (next == std::string_view::npos && digits != line.size()) return std::nullopt;
  return size;
}

}  // namespace

ChunkReader::State ChunkReader::ReadLine() {
  if (part_ == Part::kDataEnd) {
    part_ = Part::kSize;
    return line_.empty() ? State::kMore : State::kBad;
  }
  if (part_ == Part::kTrailer) {
    if (line_.empty()) return State::kDone;
    return IsField(line_) ? State::kMore : State::kBad;
  }
  const auto size = ParseChunkSize(line_);
  if (!size || FindIllegalByte(line_)) return State::kBad;
  if (*size > max_body_bytes_) return State::kTooLong;
  remaining_ = *size;
  part_ = *size > 0 ? Part::kData : Part::kTrailer;
  return State::kMore;
}

ChunkReader::State ChunkReader::Read(std::string_view& bytes, std::string& body) {
  while (!bytes.empty()) {
    if (part_ == Part::kData) {
      if (remaining_ > max_body_bytes_ - body.size()) return State::kTooLong;
      const auto taken = static_cast<size_t>(std::min<uint64_t>(remaining_, bytes.size()));
      body.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      remaining_ -= taken;
      if (remaining_ == 0) part_ = Part::kDataEnd;
      continue;
    }
    const size_t end = bytes.find('\n');
    const size_t taken = end == std::string_view::npos ? bytes.size() : end + 1;
    line_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (part_ == Part::kTrailer) trailer_bytes_ += taken;
    if (line_.size() > kMaxChunkLine || trailer_bytes_ > kMaxTrailerBytes) return State::kBad;
    if (part_ == Part::kDataEnd && line_ != "\r" && line_ != "\r\n") return State::kBad;
    if (end == std::string_view::npos) return State::kMore;
    if (!line_.ends_with("\r\n")) return State::kBad;
    line_.resize(line_.size() - 2);
    if (const State state = ReadLine(); state != State::kMore) return state;
    line_.clear();
  }
  return State::kMore;
}

RequestReader::State RequestReader::Fail(HttpFault fault) {
  fault_ = std::move(fault);
  return State::kFault;
}

RequestReader::State RequestReader::Read(std::string& buffer) {
  if (stage_ == Stage::kNothing) {
    // RFC 9112, 2.2: an empty line or so before a request is to be passed over.
    size_t begin = 0;
    while (std::string_view(buffer).substr(begin).starts_with("\r\n")) begin += 2;
    buffer.erase(0, begin);
    if (buffer.empty() || buffer == "\r") return State::kMore;
    stage_ = Stage::kHead;
  }
  if (stage_ == Stage::kHead) {
    if (const State state = ReadHead(buffer); stage_ == Stage::kHead) return state;
  }
  return ReadBody(buffer);
}

RequestReader::State RequestReader::ReadHead(std::string& buffer) {
  const size_t end = buffer.find("\r\n\r\n", scanned_ > 3 ? scanned_ - 3 : 0);
  const bool complete = end != std::string::npos;
  const std::string_view head =
      std::string_view(buffer).substr(0, complete ? end + 4 : buffer.size());
  if (auto fault = FindIllegalByte(head, scanned_)) return Fail(*std::move(fault));
  scanned_ = head.size();
  if (static_cast<int64_t>(head.size()) > max_header_bytes_) {
    return Fail({431, "the request's head is larger than the server takes", {}});
  }
  if (complete) {
    auto parsed = ParseRequestHead(head);
    if (!parsed) return Fail(std::move(parsed).error());
    head_ = *std::move(parsed);
    if (!head_.chunked && head_.content_length > static_cast<uint64_t>(max_body_bytes_)) {
      return Fail({413, "the request's body is larger than the server takes", head_.request.path});
    }
    buffer.erase(0, head.size());
    chunks_ = ChunkReader(static_cast<uint64_t>(max_body_bytes_));
    stage_ = Stage::kBody;
  } else if (const size_t line = head.find("\r\n"); line != head.npos && !line_checked_) {
    // What is no HTTP/1 is told so at once, not when its head fails to end.
    if (auto parsed = ParseRequestLine(head.substr(0, line)); !parsed) {
      return Fail(std::move(parsed).error());
    }
    line_checked_ = true;
  }
  return State::kMore;
}

RequestReader::State RequestReader::ReadBody(std::string& buffer) {
  std::string& body = head_.request.body;
  if (!head_.chunked) {
    const size_t missing = static_cast<size_t>(head_.content_length) - body.size();
    const size_t taken = std::min(missing, buffer.size());
    body.append(buffer, 0, taken);
    buffer.erase(0, taken);
    return taken == missing ? State::kRequest : State::kMore;
  }
  std::string_view bytes = buffer;
  const ChunkReader::State state = chunks_.Read(bytes, body);
  buffer.erase(0, buffer.size() - bytes.size());
  switch (state) {
    case ChunkReader::State::kMore:
      return State::kMore;
    case ChunkReader::State::kDone:
      return State::kRequest;
    case ChunkReader::State::kTooLong:
      return Fail({413, "the request's body is larger than the server takes", head_.request.path});
    case ChunkReader::State::kBad:
      break;
  }
  return Fail({400, "a chunk of the body does not parse", head_.request.path});
}

RequestHead RequestReader::Take() {
  stage_ = Stage::kNothing;
  scanned_ = 0;
  line_checked_ = false;
  return std::exchange(head_, RequestHead{});
}

}  // namespace cachalot
