#include "cache/disk_tier.h"

#include "base/check.h"
#include "base/thread_name.h"

namespace cachalot {

Result<std::unique_ptr<DiskTier>> DiskTier::Open(const DiskTierOptions& options) {
  CACHALOT_ASSIGN_OR_RETURN(auto store, DiskStore::Open(options));
  return std::unique_ptr<DiskTier>(new DiskTier(options, std::move(store)));
}

DiskTier::DiskTier(const DiskTierOptions& options, std::unique_ptr<DiskStore> store)
    : options_(options), store_(std::move(store)), thread_([this] { Work(); }) {}

DiskTier::~DiskTier() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DiskTier::Write(const PageIdentity& page, PagePart part, Bytes bytes) {
  const auto size = static_cast<int64_t>(bytes->size());
  CACHALOT_CHECK_EQ(size, options_.part_bytes[IndexOf(part)]);
  std::lock_guard lock(mutex_);
  if (!store_->writable() || queued_bytes_ + size > options_.max_queued_bytes ||
      store_->Has(page.key, part) || !queued_.emplace(page.key, part).second) {
    ++counts_.dropped;
    return;
  }
  queued_bytes_ += size;
  writes_.push_back({page, part, std::move(bytes)});
  changed_.notify_all();
}

void DiskTier::Read(const PageKey& key, PagePart part, std::span<std::byte> into,
                    std::function<void(bool ok)> done) {
  CACHALOT_CHECK_EQ(static_cast<int64_t>(into.size()), options_.part_bytes[IndexOf(part)]);
  std::lock_guard lock(mutex_);
  reads_.push_back({key, part, into, std::move(done)});
  changed_.notify_all();
}

void DiskTier::Flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return idle(); });
}

DiskTierStats DiskTier::stats() const {
  std::lock_guard lock(mutex_);
  const DiskStore::Stats stored = store_->stats();
  DiskTierStats stats = counts_;
  stats.entries = stored.entries;
  stats.bytes = stored.bytes;
  stats.evicted = stored.evicted;
  stats.read_only = store_->read_only();
  stats.disabled = !stats.read_only && !store_->writable();
  return stats;
}

void DiskTier::Work() {
  NameThisThread("disk");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !idle(); });
    if (idle()) {
      return;
    }
    busy_ = true;
    if (!reads_.empty()) {
      DoRead(lock);
    } else {
      DoWrite(lock);
    }
    busy_ = false;
    changed_.notify_all();
  }
}

void DiskTier::DoRead(std::unique_lock<std::mutex>& lock) {
  const ReadJob job = std::move(reads_.front());
  reads_.pop_front();
  lock.unlock();
  const bool ok = store_->Read(job.key, job.part, job.into);
  lock.lock();
  counts_.read_failures += ok ? 0 : 1;
  lock.unlock();
  job.done(ok);
  lock.lock();
}

void DiskTier::DoWrite(std::unique_lock<std::mutex>& lock) {
  WriteJob job = std::move(writes_.front());
  writes_.pop_front();
  lock.unlock();
  const auto size = static_cast<int64_t>(job.bytes->size());
  const bool stored = store_->Write(job.page, job.part, *job.bytes);
  job.bytes.reset();
  lock.lock();
  ++(stored ? counts_.writes : counts_.dropped);
  queued_bytes_ -= size;
  queued_.erase({job.page.key, job.part});
}

}  // namespace cachalot
