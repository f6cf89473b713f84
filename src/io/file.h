// Files: whole reads, read-only maps, sequential writes. Every error names the path and the
// system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace cachalot {

// What the system has just refused, by errno: kNotFound where there is no such thing, else kIoError.
// "PATH: cannot open: No such file or directory".
tl::unexpected<Error> SystemError(const std::string& path, const char* action);

// A whole regular file mapped read-only; unmapped when the owner goes. Pages are shared with the
// page cache, until Adopt.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Memory of the file's own size, in huge pages where the system has them, to be filled by Read.
  class Copy;
  Result<Copy> NewCopy() const;
  // The filled copy takes the place of the mapping: bytes() stays where it is.
  Status Adopt(Copy copy);

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
};

// Lives no longer than its file.
class MappedFile::Copy {
 public:
  Copy(Copy&& other) noexcept;
  Copy& operator=(Copy&&) = delete;
  ~Copy();

  // Reads bytes [begin, end) of the file. For several threads at once; whose thread reads first, near
  // that one the memory will be.
  Status Read(int64_t begin, int64_t end) const;

 private:
  friend class MappedFile;
  explicit Copy(const MappedFile& file) : file_(&file) {}

  const MappedFile* file_;
  std::byte* data_ = nullptr;
};

// The whole file as bytes. Refuses files above max_bytes, naming both sizes.
Result<std::string> ReadFile(const std::string& path, int64_t max_bytes);

// A file written front to back under its final name; an error of any write surfaces at Close at the
// latest.
class OutputFile {
 public:
  static Result<OutputFile> Create(const std::string& path);
  // Goes on behind the first `size` bytes of a file that has as many; what follows them is cut off.
  static Result<OutputFile> Continue(const std::string& path, int64_t size);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status Write(std::span<const std::byte> bytes);
  Status Close();

 private:
  OutputFile() = default;
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace cachalot
