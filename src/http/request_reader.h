// Bytes of a connection to requests, one after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/request_head.h"

namespace cachalot {

// The body of Transfer-Encoding: chunked. Extensions and trailers are read over.
class ChunkReader {
 public:
  enum class State { kMore, kDone, kBad, kTooLong };
  explicit ChunkReader(uint64_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}
  // Takes what belongs to it from the front of `bytes` and appends the data to `body`.
  State Read(std::string_view& bytes, std::string& body);

 private:
  enum class Part { kSize, kData, kDataEnd, kTrailer };
  State ReadLine();

  uint64_t max_body_bytes_;
  Part part_ = Part::kSize;
  std::string line_;        // of which the end did not come yet
  uint64_t remaining_ = 0;  // of the chunk's data
  uint64_t trailer_bytes_ = 0;
};

class RequestReader {
 public:
  enum class State { kMore, kRequest, kFault };
  enum class Stage { kNothing, kHead, kBody };  // kNothing: no byte of the next request came yet

  RequestReader(int64_t max_header_bytes, int64_t max_body_bytes)
      : max_header_bytes_(max_header_bytes), max_body_bytes_(max_body_bytes) {}

  // Takes bytes from the front of `buffer` up to the end of a request; what is left in it by kMore is
  // to come again with what follows. After kFault there is nothing more to read.
  State Read(std::string& buffer);

  Stage stage() const { return stage_; }
  // From Stage::kBody on, and with kRequest.
  const RequestHead& head() const { return head_; }
  const HttpFault& fault() const { return fault_; }
  // The request of kRequest; the reader then stands before the next one.
  RequestHead Take();

 private:
  State Fail(HttpFault fault);
  State ReadHead(std::string& buffer);
  State ReadBody(std::string& buffer);

  int64_t max_header_bytes_;
  int64_t max_body_bytes_;
  Stage stage_ = Stage::kNothing;
  size_t scanned_ = 0;  // bytes of the head that are known to be legal and not its end
  bool line_checked_ = false;
  RequestHead head_;
  ChunkReader chunks_{0};
  HttpFault fault_;
};

}  // namespace cachalot
