#include "cache/disk_store.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "cache/disk_format.h"

namespace cachalot {
namespace {

constexpr std::array<FileKind, 3> kFiles = {FileKind::kHistorySlabs, FileKind::kWindowSlabs,
                                            FileKind::kIndex};

std::string PathOf(const std::string& folder, FileKind kind) {
  switch (kind) {
    case FileKind::kHistorySlabs:
      return folder + "/history.slabs";
    case FileKind::kWindowSlabs:
      return folder + "/window.slabs";
    case FileKind::kIndex:
      break;
  }
  return folder + "/index";
}

FileHeader HeaderOf(const DiskTierOptions& options, FileKind kind) {
  return Sealed(FileHeader{.kind = kind, .part_bytes = options.part_bytes, .root = options.root});
}

using FilesByKind = std::vector<DiskFile>;  // as kFiles

Result<FilesByKind> OpenAll(const std::string& folder, FileAccess access) {
  FilesByKind files;
  for (const FileKind kind : kFiles) {
    CACHALOT_ASSIGN_OR_RETURN(auto file, DiskFile::Open(PathOf(folder, kind), access));
    files.push_back(std::move(file));
  }
  return files;
}

bool HaveTheirHeaders(const FilesByKind& files, const DiskTierOptions& options) {
  for (size_t i = 0; i < kFiles.size(); ++i) {
    FileHeader header;
    if (!files[i].Read(0, std::as_writable_bytes(std::span(&header, 1))) ||
        header != HeaderOf(options, kFiles[i])) {
      return false;
    }
  }
  return true;
}

// The index's header comes last: files are whole once it is there.
Status BeginAnew(FilesByKind& files, const DiskTierOptions& options) {
  if (files.back().size() > 0) {
    spdlog::info("{}: written in another form, or damaged: begun anew", files.back().path());
  }
  for (size_t i = kFiles.size(); i-- > 0;) {
    CACHALOT_RETURN_IF_ERROR(files[i].Truncate(0));
  }
  for (size_t i = 0; i < kFiles.size(); ++i) {
    const FileHeader header = HeaderOf(options, kFiles[i]);
    CACHALOT_RETURN_IF_ERROR(
        files[i].Truncate(kFiles[i] == FileKind::kIndex ? kRecordsBegin : kSlabsBegin));
    CACHALOT_RETURN_IF_ERROR(files[i].Write(0, BytesOf(header)));
  }
  return {};
}

}  // namespace

DiskStore::Files::Files(std::vector<DiskFile> files, const DiskTierOptions& options)
    : slabs{SlabFile(std::move(files[0]), options.part_bytes[0]),
            SlabFile(std::move(files[1]), options.part_bytes[1])},
      index(std::move(files[2]), HeaderOf(options, FileKind::kIndex)) {}

DiskStore::DiskStore(std::string folder, std::array<int64_t, 2> num_slabs)
    : folder_(std::move(folder)), num_slabs_(num_slabs), catalog_(num_slabs) {}

Result<std::unique_ptr<DiskStore>> DiskStore::Open(const DiskTierOptions& options) {
  CACHALOT_ASSIGN_OR_RETURN(const auto num_slabs, PlanSlabs(options));
  const std::string folder = options.folder + "/" + HexOf(options.root).substr(0, 16);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return MakeError(StatusCode::kIoError, "{}: cannot make the folder of the disk cache: {}",
                     folder, error.message());
  }
  std::unique_ptr<DiskStore> store(new DiskStore(folder, num_slabs));
  CACHALOT_ASSIGN_OR_RETURN(auto lock, DiskFile::Open(folder + "/lock", FileAccess::kReadWrite));
  CACHALOT_ASSIGN_OR_RETURN(const bool locked, lock.TryLock());
  if (locked) {
    store->lock_ = std::move(lock);
    CACHALOT_RETURN_IF_ERROR(store->OpenToWrite(options));
  } else {
    spdlog::info("{}: another process writes this disk cache, this one reads it", folder);
    CACHALOT_RETURN_IF_ERROR(store->OpenToRead(options));
  }
  return store;
}

Status DiskStore::OpenToWrite(const DiskTierOptions& options) {
  std::error_code none;  // a new index that a process left half written
  std::filesystem::remove(PathOf(folder_, FileKind::kIndex) + ".new", none);
  CACHALOT_ASSIGN_OR_RETURN(auto files, OpenAll(folder_, FileAccess::kReadWrite));
  if (!HaveTheirHeaders(files, options)) {
    CACHALOT_RETURN_IF_ERROR(BeginAnew(files, options));
  }
  files_.emplace(std::move(files), options);
  CACHALOT_RETURN_IF_ERROR(files_->index.Load(&catalog_));
  CACHALOT_RETURN_IF_ERROR(files_->index.CutTail());
  for (const PagePart part : kPageParts) {
    CACHALOT_RETURN_IF_ERROR(files_->slabs[IndexOf(part)].Limit(num_slabs_[IndexOf(part)]));
  }
  writable_ = true;
  RewriteIndexIfGrown();
  CountBytes();
  return {};
}

Status DiskStore::OpenToRead(const DiskTierOptions& options) {
  auto files = OpenAll(folder_, FileAccess::kRead);
  if (!files && files.error().code != StatusCode::kNotFound) {
    return tl::unexpected(std::move(files).error());
  }
  if (!files || !HaveTheirHeaders(*files, options)) {
    return {};
  }
  files_.emplace(*std::move(files), options);
  CountBytes();
  return files_->index.Load(&catalog_);
}

bool DiskStore::Has(const PageKey& key, PagePart part) const {
  std::lock_guard lock(mutex_);
  return catalog_.Find(key, part).has_value();
}

void DiskStore::Touch(const PageKey& key) {
  std::lock_guard lock(mutex_);
  catalog_.Touch(key);
}

std::vector<StoredPage> DiskStore::ParentsFirst() const {
  std::lock_guard lock(mutex_);
  return catalog_.ParentsFirst();
}

DiskStore::Stats DiskStore::stats() const {
  std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.entries = catalog_.num_parts();
  return stats;
}

bool DiskStore::Write(const PageIdentity& page, PagePart part, std::span<const std::byte> bytes) {
  if (!writable_ || Has(page.key, part)) {
    return false;
  }
  const Status stored = Store(page, part, bytes);
  StopWritingUnless(stored);
  RewriteIndexIfGrown();
  CountBytes();
  return stored.has_value();
}

Status DiskStore::Store(const PageIdentity& page, PagePart part, std::span<const std::byte> bytes) {
  const auto room = [&] {
    std::lock_guard lock(mutex_);
    return catalog_.FindRoom(part);
  }();
  if (room.victim) {
    CACHALOT_RETURN_IF_ERROR(files_->index.Delete(*room.victim, part, room.slab));
    std::lock_guard lock(mutex_);
    catalog_.Remove(*room.victim, part);
    ++stats_.evicted;
  }
  const DiskCatalog::Place place = {room.slab, DigestOf({bytes})};
  CACHALOT_RETURN_IF_ERROR(
      files_->slabs[IndexOf(part)].Write(room.slab, page.key, bytes, place.payload));
  CACHALOT_RETURN_IF_ERROR(files_->index.Put({&page, part, place}));
  std::lock_guard lock(mutex_);
  CACHALOT_CHECK(catalog_.Put(page, part, place));
  return {};
}

void DiskStore::RewriteIndexIfGrown() {
  std::unique_lock lock(mutex_);
  if (!writable_ || !files_->index.HasGrown(catalog_.num_parts())) {
    return;
  }
  // Its pages stay where they are: only this thread removes any.
  const std::vector<DiskCatalog::Record> records = catalog_.RecordsByUse();
  lock.unlock();
  StopWritingUnless(files_->index.Rewrite(records));
}

void DiskStore::CountBytes() {
  std::lock_guard lock(mutex_);
  stats_.bytes = files_->slabs[0].size() + files_->slabs[1].size() + files_->index.size();
}

void DiskStore::StopWritingUnless(const Status& status) {
  if (!status && writable_.exchange(false)) {
    spdlog::warn("{}; the disk cache keeps what it has and takes no more", status.error().message);
  }
}

bool DiskStore::Read(const PageKey& key, PagePart part, std::span<std::byte> into) {
  const auto place = [&] {
    std::lock_guard lock(mutex_);
    return catalog_.Find(key, part);
  }();
  if (!place) {
    return false;
  }
  const Status read = files_->slabs[IndexOf(part)].Read(place->slab, key, place->payload, into);
  if (!read) {
    spdlog::debug("{}", read.error().message);
    Forget(key, part, place->slab);
  }
  return read.has_value();
}

void DiskStore::Forget(const PageKey& key, PagePart part, int64_t slab) {
  if (writable_) {
    StopWritingUnless(files_->index.Delete(key, part, slab));
  }
  std::unique_lock lock(mutex_);
  catalog_.Remove(key, part);
  lock.unlock();
  RewriteIndexIfGrown();
  CountBytes();
}

}  // namespace cachalot
