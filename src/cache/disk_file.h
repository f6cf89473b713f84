// DiskFile: a file of the disk tier, read and written at offsets. Errors name the path and the
// system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace cachalot {

enum class FileAccess : uint8_t { kRead, kReadWrite };

class DiskFile {
 public:
  // kReadWrite makes the file where it is missing, for its owner's eyes alone: it holds prompts.
  static Result<DiskFile> Open(const std::string& path, FileAccess access);
  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&& other) noexcept;
  ~DiskFile();

  const std::string& path() const { return path_; }
  // At opening, and as this object has changed it since.
  int64_t size() const { return size_; }

  // All of `into`; kDataLoss where the file ends before.
  Status Read(int64_t offset, std::span<std::byte> into) const;
  // After a failure some of the bytes may be there.
  Status Write(int64_t offset, std::span<const std::byte> bytes);
  Status Truncate(int64_t size);
  // Takes the place of the file at `path`, for whoever opens that from now on.
  Status Rename(const std::string& path);
  // Whether this process now has the file to itself, until it is closed. False: another one has it.
  Result<bool> TryLock();

 private:
  DiskFile() = default;

  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace cachalot
