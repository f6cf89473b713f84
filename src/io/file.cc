#include "io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cachalot {
namespace {

tl::unexpected<Error> SystemError(const std::string& path, const char* action) {
  const int reason = errno;
  return MakeError(reason == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError,
                   "{}: cannot {}: {}", path, action, std::strerror(reason));
}

// Opens a regular file for reading; *size is its length.
Result<int> OpenRegular(const std::string& path, int64_t* size) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return SystemError(path, "open");
  }
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) {
    auto error = SystemError(path, "stat");
    ::close(descriptor);
    return error;
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return MakeError(StatusCode::kInvalidArgument, "{}: not a regular file", path);
  }
  *size = info.st_size;
  return descriptor;
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  int64_t size = 0;
  CACHALOT_ASSIGN_OR_RETURN(const int descriptor, OpenRegular(path, &size));
  MappedFile file;
  file.path_ = path;
  if (size > 0) {
    void* data = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) {
      auto error = SystemError(path, "map");
      ::close(descriptor);
      return error;
    }
    file.data_ = static_cast<const std::byte*>(data);
    file.size_ = static_cast<size_t>(size);
  }
  ::close(descriptor);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

Result<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  int64_t size = 0;
  CACHALOT_ASSIGN_OR_RETURN(const int descriptor, OpenRegular(path, &size));
  if (size > max_bytes) {
    ::close(descriptor);
    return MakeError(StatusCode::kInvalidArgument, "{}: {} bytes, expected at most {}", path, size,
                     max_bytes);
  }
  std::string text(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(descriptor, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      auto error = SystemError(path, "read");
      ::close(descriptor);
      return error;
    }
    if (got == 0) {
      break;
    }
    done += static_cast<size_t>(got);
  }
  ::close(descriptor);
  text.resize(done);
  return text;
}

Result<OutputFile> OutputFile::Create(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file.descriptor_ < 0) {
    return SystemError(path, "create");
  }
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status OutputFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return SystemError(path_, "write");
    }
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return {};
}

Status OutputFile::Close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    return SystemError(path_, "close");
  }
  return {};
}

}  // namespace cachalot
