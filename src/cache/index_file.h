// IndexFile: the catalogue's changes on disk, one sealed record after the other. A record that is
// torn or damaged is passed over: what it would have said is lost, and nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/disk_catalog.h"
#include "cache/disk_file.h"
#include "cache/disk_format.h"

namespace cachalot {

class IndexFile {
 public:
  // `file` has this header already.
  IndexFile(DiskFile file, const FileHeader& header)
      : file_(std::move(file)), header_(header), end_(file_.size()) {}

  int64_t size() const { return file_.size(); }
  // Plays all records into the catalogue, and notes where the last good one ends.
  Status Load(DiskCatalog* catalog);
  // Cuts off what lies behind the last good record.
  Status CutTail() { return file_.Truncate(end_); }

  Status Put(const DiskCatalog::Record& record);
  Status Delete(const PageKey& key, PagePart part, int64_t slab);

  // Whether the records are more than twice what num_parts of them need.
  bool HasGrown(int64_t num_parts) const;
  // A new index with these records alone is written beside this one and then takes its place.
  Status Rewrite(const std::vector<DiskCatalog::Record>& records);

 private:
  Status Append(std::span<const std::byte> record);

  DiskFile file_;
  FileHeader header_;
  int64_t end_;
};

}  // namespace cachalot
