// The safetensors header: any bytes either parse into tensors that lie inside the file, or give an
// error. The input is the beginning of a file; its last two bytes say how much longer the file is.
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using cachalot::SafetensorsEntry;
  uint16_t more = 0;
  if (size >= sizeof(more)) {
    size -= sizeof(more);
    std::memcpy(&more, data + size, sizeof(more));
  }
  const auto parse = [&](std::span<const std::byte> head, int64_t file_size) {
    const auto header = cachalot::ParseSafetensorsHeader(head, file_size, "input");
    if (!header) {
      CACHALOT_CHECK(header.error().message.find('\n') == std::string::npos, "{}",
                     header.error().message);
      return false;
    }
    int64_t covered = 0;
    for (const SafetensorsEntry& entry : header->entries) {
      CACHALOT_CHECK_EQ(entry.begin, covered);
      CACHALOT_CHECK_LE(entry.shape.size(), cachalot::kMaxSafetensorsRank);
      covered = entry.end;
    }
    CACHALOT_CHECK_EQ(header->data_begin + covered, file_size);
    return true;
  };
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file_size = static_cast<int64_t>(size) + more;
  if (parse(bytes, file_size)) {
    return 0;
  }
  // Again with a right length before the same text, so that the fuzzer need not guess it.
  const uint64_t length = size;
  std::string framed(reinterpret_cast<const char*>(&length), sizeof(length));
  framed.append(reinterpret_cast<const char*>(data), size);
  parse(std::as_bytes(std::span(framed.data(), framed.size())),
        static_cast<int64_t>(framed.size()) + more);
  return 0;
}
