// DiskTier: pages of the prefix cache on disk, bounded in bytes, kept from one run to the next.
// Writes and reads are queued to a thread of the tier's own, reads first. All calls are for any
// thread. Nothing here ever fails a request: what cannot be kept is dropped, what cannot be read is
// a miss, and a read never gives a wrong byte (docs/disk-cache.md).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/disk_catalog.h"
#include "cache/disk_plan.h"
#include "cache/disk_store.h"
#include "cache/page_key.h"
#include "cache/page_part.h"

namespace cachalot {

struct DiskTierStats {
  int64_t entries = 0;        // parts of pages
  int64_t bytes = 0;          // of this model's files
  int64_t writes = 0;         // parts stored since opening
  int64_t dropped = 0;        // parts given to Write and not stored
  int64_t evicted = 0;        // parts that made room for others
  int64_t read_failures = 0;  // reads that were answered with false
  bool disabled = false;      // the system refused a write: only reads since
  bool read_only = false;     // another process writes
};

class DiskTier {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  using Stored = StoredPage;

  // Makes the folder and, the first time, its files. Fails where they cannot be made or used, a full
  // disk included (kIoError), and where max_bytes does not hold one page (kInvalidArgument).
  static Result<std::unique_ptr<DiskTier>> Open(const DiskTierOptions& options);
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;
  // Does all that is queued.
  ~DiskTier();

  // What is there of this model. Parents before children; a page whose parent was evicted is there
  // all the same.
  std::vector<Stored> Load() const { return store_->ParentsFirst(); }
  bool Has(const PageKey& key, PagePart part) const { return store_->Has(key, part); }

  // Queues `bytes`, part_bytes of them. Dropped, and counted, where the part is there or queued
  // already, where the queue is full and where the tier does not write.
  void Write(const PageIdentity& page, PagePart part, Bytes bytes);
  // Queues a read into part_bytes of the caller's, who keeps them until `done`, which runs on the
  // tier's thread. False: the part is not there (any more), and `into` has any bytes.
  void Read(const PageKey& key, PagePart part, std::span<std::byte> into,
            std::function<void(bool ok)> done);
  // The page was used: it is evicted after those that were not since. Reading alone is not use.
  void Touch(const PageKey& key) { store_->Touch(key); }
  // Returns once nothing is queued. Not for `done` to call.
  void Flush();

  DiskTierStats stats() const;

 private:
  struct WriteJob {
    PageIdentity page;
    PagePart part;
    Bytes bytes;
  };
  struct ReadJob {
    PageKey key;
    PagePart part;
    std::span<std::byte> into;
    std::function<void(bool ok)> done;
  };

  DiskTier(const DiskTierOptions& options, std::unique_ptr<DiskStore> store);
  void Work();
  void DoRead(std::unique_lock<std::mutex>& lock);
  void DoWrite(std::unique_lock<std::mutex>& lock);
  bool idle() const { return reads_.empty() && writes_.empty() && !busy_; }

  const DiskTierOptions options_;
  const std::unique_ptr<DiskStore> store_;

  mutable std::mutex mutex_;  // guards what follows; taken before the store's own
  std::condition_variable changed_;
  std::deque<ReadJob> reads_;
  std::deque<WriteJob> writes_;
  std::set<std::pair<PageKey, PagePart>> queued_;  // of the writes, the one being done included
  int64_t queued_bytes_ = 0;
  bool busy_ = false;
  bool ending_ = false;
  DiskTierStats counts_;

  std::thread thread_;
};

}  // namespace cachalot
