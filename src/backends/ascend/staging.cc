#include "backends/ascend/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kAlignment = 64;  // of the pieces of a slot

int64_t RoundUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

UploadRing::UploadRing(std::shared_ptr<RuntimeDevice> device, int64_t slots, int64_t slot_bytes)
    : device_(std::move(device)), slot_bytes_(slot_bytes), slots_(static_cast<size_t>(slots)) {
  CACHALOT_CHECK(slots > 0 && slot_bytes > 0 && slot_bytes % kAlignment == 0);
}

UploadRing::~UploadRing() {
  device_->Bind();
  for (const Slot& slot : slots_) {
    if (slot.event != nullptr) {
      device_->symbols().aclrtDestroyEvent(slot.event);
    }
  }
}

Status UploadRing::Open(Slot& slot) {
  if (slot.event == nullptr) {
    const aclError code =
        device_->symbols().aclrtCreateEventExWithFlag(&slot.event, ACL_EVENT_SYNC);
    if (code != ACL_SUCCESS) {
      slot.event = nullptr;
      return tl::unexpected(device_->Explain("an event for uploads", code));
    }
  }
  if (slot.memory == nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(slot.memory, PinnedBlock::New(device_, slot_bytes_));
  }
  return {};
}

Result<std::span<std::byte>> UploadRing::Next(int64_t bytes, aclrtStream stream) {
  if (used_ == slot_bytes_) {
    Slot& full = slots_[current_];
    const aclError code = device_->symbols().aclrtRecordEvent(full.event, stream);
    if (code != ACL_SUCCESS) {
      return tl::unexpected(device_->Explain("an event behind uploads", code));
    }
    full.in_flight = true;
    current_ = (current_ + 1) % slots_.size();
    used_ = 0;
  }
  Slot& slot = slots_[current_];
  CACHALOT_RETURN_IF_ERROR(Open(slot));
  if (slot.in_flight) {
    ++waits_;
    const aclError code = device_->symbols().aclrtSynchronizeEvent(slot.event);
    if (code != ACL_SUCCESS) {
      return tl::unexpected(device_->Explain("waiting for earlier uploads", code));
    }
    slot.in_flight = false;
  }
  const int64_t taken = std::min(bytes, slot_bytes_ - used_);
  const std::span<std::byte> piece(slot.memory->data() + used_, static_cast<size_t>(taken));
  used_ += RoundUp(taken);
  return piece;
}

void UploadRing::Release() {
  for (Slot& slot : slots_) {
    slot.in_flight = false;
  }
  used_ = 0;
}

DownloadArea::DownloadArea(std::shared_ptr<RuntimeDevice> device, int64_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  CACHALOT_CHECK(bytes > 0 && bytes % kAlignment == 0);
}

Result<std::span<std::byte>> DownloadArea::Next(int64_t bytes, void* host) {
  if (memory_ == nullptr) {
    CACHALOT_ASSIGN_OR_RETURN(memory_, PinnedBlock::New(device_, bytes_));
  }
  const int64_t taken = std::min(bytes, bytes_ - used_);
  const std::span<std::byte> piece(memory_->data() + used_, static_cast<size_t>(taken));
  if (taken > 0) {
    arrivals_.push_back({.staged = piece, .host = host});
    used_ += RoundUp(taken);
  }
  return piece;
}

void DownloadArea::Deliver() {
  for (const Arrival& arrival : arrivals_) {
    std::memcpy(arrival.host, arrival.staged.data(), arrival.staged.size());
  }
  Drop();
}

void DownloadArea::Drop() {
  arrivals_.clear();
  used_ = 0;
}

}  // namespace cachalot::ascend
