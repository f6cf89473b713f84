#include "cache/index_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace cachalot {
namespace {

template <typename T>
bool Decode(std::span<const std::byte> bytes, RecordKind kind, T* record) {
  if (bytes.size() < sizeof(T)) {
    return false;
  }
  std::memcpy(record, bytes.data(), sizeof(T));
  return record->kind == kind && record->part < kPageParts.size() &&
         record->seal == SealOf(*record);
}

// The length of the record that `bytes` begin with, once it is done; 0 where there is none.
int64_t Play(std::span<const std::byte> bytes, DiskCatalog* catalog) {
  if (PutRecord put; Decode(bytes, RecordKind::kPut, &put)) {
    // False for a slab beyond a limit that is lower than it was: the page is gone.
    catalog->Put(put.page, kPageParts[put.part], {put.slab, put.payload});
    return sizeof(put);
  }
  if (DeleteRecord gone; Decode(bytes, RecordKind::kDelete, &gone)) {
    catalog->Remove(gone.key, kPageParts[gone.part]);
    return sizeof(gone);
  }
  return 0;
}

PutRecord PutRecordOf(const DiskCatalog::Record& record) {
  return Sealed(PutRecord{.part = static_cast<uint32_t>(record.part),
                          .slab = record.place.slab,
                          .page = *record.page,
                          .payload = record.place.payload});
}

}  // namespace

Status IndexFile::Load(DiskCatalog* catalog) {
  std::array<std::byte, sizeof(PutRecord)> buffer;
  end_ = kRecordsBegin;
  for (int64_t offset = kRecordsBegin; offset < file_.size();) {
    const auto bytes = std::span(buffer).first(
        static_cast<size_t>(std::min<int64_t>(buffer.size(), file_.size() - offset)));
    CACHALOT_RETURN_IF_ERROR(file_.Read(offset, bytes));
    const int64_t length = Play(bytes, catalog);
    offset += length > 0 ? length : kRecordCell;
    end_ = length > 0 ? offset : end_;
  }
  return {};
}

Status IndexFile::Append(std::span<const std::byte> record) {
  CACHALOT_RETURN_IF_ERROR(file_.Write(end_, record));
  end_ += static_cast<int64_t>(record.size());
  return {};
}

Status IndexFile::Put(const DiskCatalog::Record& record) {
  return Append(BytesOf(PutRecordOf(record)));
}

Status IndexFile::Delete(const PageKey& key, PagePart part, int64_t slab) {
  return Append(
      BytesOf(Sealed(DeleteRecord{.part = static_cast<uint32_t>(part), .slab = slab, .key = key})));
}

bool IndexFile::HasGrown(int64_t num_parts) const {
  return end_ - kRecordsBegin > 2 * num_parts * static_cast<int64_t>(sizeof(PutRecord));
}

Status IndexFile::Rewrite(const std::vector<DiskCatalog::Record>& records) {
  const std::string path = file_.path();
  CACHALOT_ASSIGN_OR_RETURN(auto file, DiskFile::Open(path + ".new", FileAccess::kReadWrite));
  CACHALOT_RETURN_IF_ERROR(file.Truncate(kRecordsBegin));
  CACHALOT_RETURN_IF_ERROR(file.Write(0, BytesOf(header_)));
  IndexFile fresh(std::move(file), header_);
  for (const DiskCatalog::Record& record : records) {
    CACHALOT_RETURN_IF_ERROR(fresh.Put(record));
  }
  CACHALOT_RETURN_IF_ERROR(fresh.file_.Rename(path));
  *this = std::move(fresh);
  return {};
}

}  // namespace cachalot
