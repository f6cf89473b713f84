// The safetensors container: a little-endian u64 header length, a JSON header, the data. Nothing of
// a file is believed before it is checked. Source: the format's description in
// huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file.h"

namespace cachalot {

inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr size_t kMaxSafetensorsRank = 4;  // cachalot's, the format has none

// One tensor of a header. `dtype` is the format's spelling ("BF16", "F8_E4M3") and lives forever;
// begin and end are byte offsets from the start of the data.
struct SafetensorsEntry {
  std::string name;
  std::string_view dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;
};

// Bits of one element; 0 for a dtype that the format does not know.
int BitsOfSafetensorsDtype(std::string_view dtype);

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in order of their data
  int64_t data_begin = 0;                 // offset of the data in the file
};

// Reads the header at the start of a file of file_size bytes, of which `head` are the first (all of
// length and header, if the file has them). Refuses names given twice, unknown dtypes, more than
// four dimensions, sizes that overflow or disagree with shape and dtype, and data that do not tile
// the rest of the file exactly; the error names `source`, the tensor, what was found and what was
// expected.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::span<const std::byte> head, int64_t file_size,
                                                 const std::string& source);

// Length and header for these entries, padded so that the data begin at a multiple of 8.
std::string FormatSafetensorsHeader(std::span<const SafetensorsEntry> entries);

// A file mapped whole; data() views its map.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  int64_t size() const { return static_cast<int64_t>(file_.bytes().size()); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  std::span<const std::byte> data(const SafetensorsEntry& entry) const;
  int64_t data_begin() const { return header_.data_begin; }  // in the file, of all entries
  MappedFile& mapped() { return file_; }
  const MappedFile& mapped() const { return file_; }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace cachalot
