#include "io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace cachalot {

tl::unexpected<Error> SystemError(const std::string& path, const char* action) {
  const int reason = errno;
  return MakeError(reason == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError,
                   "{}: cannot {}: {}", path, action, std::strerror(reason));
}

namespace {

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

constexpr size_t kHugePage = size_t{2} << 20;

// Room for `size` bytes at the beginning of a huge page, nothing in it yet; null where there is none.
std::byte* ReserveAddresses(size_t size) {
  const size_t room = size + kHugePage;
  void* reserved =
      ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return nullptr;
  }
  auto* begin = static_cast<std::byte*>(reserved);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t used = before + (size + page - 1) / page * page;
  if (before > 0) {
    ::munmap(begin, before);
  }
  if (used < room) {
    ::munmap(begin + used, room - used);
  }
  return begin + before;
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  int64_t size = 0;
  MappedFile file;
  CACHALOT_ASSIGN_OR_RETURN(file.descriptor_, OpenRegular(path, &size));
  file.path_ = path;
  if (size > 0) {
    std::byte* addresses = ReserveAddresses(static_cast<size_t>(size));
    if (addresses == nullptr) {
      return SystemError(path, "map");
    }
    file.data_ = addresses;
    file.size_ = static_cast<size_t>(size);
    if (::mmap(addresses, file.size_, PROT_READ, MAP_SHARED | MAP_FIXED, file.descriptor_, 0) ==
        MAP_FAILED) {
      return SystemError(path, "map");
    }
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Result<MappedFile::Copy> MappedFile::NewCopy() const {
  Copy copy(*this);
  if (size_ == 0) {
    return copy;
  }
  copy.data_ = ReserveAddresses(size_);
  if (copy.data_ == nullptr || ::mprotect(copy.data_, size_, PROT_READ | PROT_WRITE) != 0) {
    return MakeError(StatusCode::kResourceExhausted, "{}: no memory for {} bytes", path_, size_);
  }
  ::madvise(copy.data_, size_, MADV_HUGEPAGE);
  return copy;
}

Status MappedFile::Adopt(Copy copy) {
  if (size_ == 0) {
    return {};
  }
  if (::mremap(copy.data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED,
               const_cast<std::byte*>(data_)) == MAP_FAILED) {
    return SystemError(path_, "move into memory");
  }
  copy.data_ = nullptr;
  ::mprotect(const_cast<std::byte*>(data_), size_, PROT_READ);
  return {};
}

MappedFile::Copy::Copy(Copy&& other) noexcept
    : file_(other.file_), data_(std::exchange(other.data_, nullptr)) {}

MappedFile::Copy::~Copy() {
  if (data_ != nullptr) {
    ::munmap(data_, file_->size_);
  }
}

Status MappedFile::Copy::Read(int64_t begin, int64_t end) const {
  while (begin < end) {
    const ssize_t count = ::pread(file_->descriptor_, data_ + begin,
                                  static_cast<size_t>(end - begin), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return SystemError(file_->path_, "read");
    }
    if (count == 0) {
      return MakeError(StatusCode::kIoError, "{}: ends at byte {}, expected {}", file_->path_,
                       begin, file_->size_);
    }
    begin += count;
  }
  return {};
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

Result<OutputFile> OutputFile::Continue(const std::string& path, int64_t size) {
  OutputFile file;
  file.path_ = path;
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file.descriptor_ < 0) {
    return SystemError(path, "open for writing");
  }
  const off_t length = ::lseek(file.descriptor_, 0, SEEK_END);
  if (length < 0) {
    return SystemError(path, "seek");
  }
  if (length < size) {
    return MakeError(StatusCode::kInvalidArgument, "{}: {} bytes, expected {} to go on behind",
                     path, length, size);
  }
  if (::ftruncate(file.descriptor_, size) != 0) {
    return SystemError(path, "truncate");
  }
  if (::lseek(file.descriptor_, size, SEEK_SET) < 0) {
    return SystemError(path, "seek");
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
