// SlabFile: one part of pages on disk, each in a slab of one size. A slab proves what it holds: no
// read gives a byte other than those that were written under that key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"
#include "cache/disk_file.h"
#include "cache/page_key.h"
#include "io/digest.h"

namespace cachalot {

class SlabFile {
 public:
  // `file` has its header already.
  SlabFile(DiskFile file, int64_t part_bytes) : file_(std::move(file)), part_bytes_(part_bytes) {}

  int64_t size() const { return file_.size(); }
  // payload: part_bytes of them, and their digest.
  Status Write(int64_t slab, const PageKey& key, std::span<const std::byte> payload,
               const Digest& digest);
  // kDataLoss where the slab holds anything else than this digest's bytes of this page. `into` has
  // part_bytes; after an error they may be any.
  Status Read(int64_t slab, const PageKey& key, const Digest& digest,
              std::span<std::byte> into) const;
  // Cuts off what lies behind the first num_slabs.
  Status Limit(int64_t num_slabs);

 private:
  int64_t OffsetOf(int64_t slab) const;

  DiskFile file_;
  int64_t part_bytes_;
};

}  // namespace cachalot
