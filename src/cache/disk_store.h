// DiskStore: the files of one model in a disk tier, and what they hold. One process at a time
// writes them, the others read. Read and Write are for one thread; everything else is for any
// thread at any time.
//
// What is written is in the files, in this order: the victim's delete record, the slab, the put
// record. A process that ends at any instant leaves nothing listed that cannot be read. After a
// power cut, as nothing is synced, anything may be listed; every read is verified, so that what did
// not get to the disk is a miss.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/disk_catalog.h"
#include "cache/disk_file.h"
#include "cache/disk_plan.h"
#include "cache/index_file.h"
#include "cache/slab_file.h"

namespace cachalot {

class DiskStore {
 public:
  struct Stats {
    int64_t entries = 0;  // parts of pages
    int64_t bytes = 0;    // of the files
    int64_t evicted = 0;  // parts that made room for others
  };

  // In the sub-folder of options.folder that options.root names, which is made. Files of another
  // form or with a damaged header are begun anew. Where another process writes, or none has
  // written yet, what can be read is there.
  static Result<std::unique_ptr<DiskStore>> Open(const DiskTierOptions& options);

  // Another process holds the files.
  bool read_only() const { return !lock_; }
  // They are ours, and the system has refused nothing so far.
  bool writable() const { return writable_; }

  bool Has(const PageKey& key, PagePart part) const;
  void Touch(const PageKey& key);
  std::vector<StoredPage> ParentsFirst() const;
  Stats stats() const;

  // True: it is stored, in place of the part used least lately where all slabs are taken. False:
  // it was there already, or the store is not writable. The first failure of the system is logged
  // and ends all writing; what is there can still be read.
  bool Write(const PageIdentity& page, PagePart part, std::span<const std::byte> bytes);
  // True: `into` has the part's bytes. False: it is not there, or it is damaged and now forgotten.
  bool Read(const PageKey& key, PagePart part, std::span<std::byte> into);

 private:
  // Slabs by PagePart. Absent in a reader that came before the first writer.
  struct Files {
    Files(std::vector<DiskFile> files, const DiskTierOptions& options);

    std::array<SlabFile, 2> slabs;
    IndexFile index;
  };

  DiskStore(std::string folder, std::array<int64_t, 2> num_slabs);
  Status OpenToWrite(const DiskTierOptions& options);
  Status OpenToRead(const DiskTierOptions& options);

  Status Store(const PageIdentity& page, PagePart part, std::span<const std::byte> bytes);
  void Forget(const PageKey& key, PagePart part, int64_t slab);
  // What ends every change of the files.
  void RewriteIndexIfGrown();
  void CountBytes();
  void StopWritingUnless(const Status& status);

  const std::string folder_;
  const std::array<int64_t, 2> num_slabs_;
  std::optional<DiskFile> lock_;
  std::optional<Files> files_;  // of the thread that reads and writes
  std::atomic<bool> writable_ = false;

  mutable std::mutex mutex_;  // guards what follows; only Read and Write add and remove parts
  DiskCatalog catalog_;
  Stats stats_;
};

}  // namespace cachalot
