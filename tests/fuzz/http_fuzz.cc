// Bytes of a connection: the reader takes any, and says the same of them however they are cut.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "http/request_reader.h"

namespace {

using cachalot::RequestReader;

std::vector<std::string> ReadPieces(std::string_view bytes, size_t piece_size) {
  RequestReader reader(1 << 20, 1000);
  std::vector<std::string> read;
  std::string buffer;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, piece_size);
    bytes.remove_prefix(piece.size());
    buffer += piece;
    RequestReader::State state = reader.Read(buffer);
    for (; state == RequestReader::State::kRequest; state = reader.Read(buffer)) {
      const cachalot::HttpRequest request = reader.Take().request;
      read.push_back(request.method + " " + request.path + " " + request.body);
      CACHALOT_CHECK_LE(request.body.size(), size_t{1000});
    }
    if (state == RequestReader::State::kFault) {
      read.push_back(std::to_string(reader.fault().status));
      return read;
    }
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = ReadPieces(bytes, size + 1);
  CACHALOT_CHECK(ReadPieces(bytes, 1) == whole);
  CACHALOT_CHECK(ReadPieces(bytes, 7) == whole);
  return 0;
}
