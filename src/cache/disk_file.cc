#include "cache/disk_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "io/file.h"

namespace cachalot {

Result<DiskFile> DiskFile::Open(const std::string& path, FileAccess access) {
  const int flags = access == FileAccess::kRead ? O_RDONLY : O_RDWR | O_CREAT;
  DiskFile file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  struct stat info = {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &info) != 0) {
    return SystemError(path, "open");
  }
  file.size_ = info.st_size;
  return file;
}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

DiskFile& DiskFile::operator=(DiskFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

DiskFile::~DiskFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status DiskFile::Read(int64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return SystemError(path_, "read");
    }
    if (got == 0) {
      return MakeError(StatusCode::kDataLoss, "{}: ends at byte {}, expected {} more", path_,
                       offset, into.size());
    }
    into = into.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return {};
}

Status DiskFile::Write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return SystemError(path_, "write");
    }
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += put;
    size_ = std::max(size_, offset);
  }
  return {};
}

Status DiskFile::Truncate(int64_t size) {
  if (::ftruncate(descriptor_, size) != 0) {
    return SystemError(path_, "truncate");
  }
  size_ = size;
  return {};
}

Status DiskFile::Rename(const std::string& path) {
  if (std::rename(path_.c_str(), path.c_str()) != 0) {
    return SystemError(path_, "rename");
  }
  path_ = path;
  return {};
}

Result<bool> DiskFile::TryLock() {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    return true;
  }
  if (errno == EWOULDBLOCK) {
    return false;
  }
  return SystemError(path_, "lock");
}

}  // namespace cachalot
