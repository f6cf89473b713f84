#include "backends/ascend/device_memory.h"

#include <algorithm>

#include "backends/ascend/runtime_device.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kLeastBlock = 1 << 20;

constexpr int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Result<std::shared_ptr<DeviceBlock>> DeviceBlock::New(std::shared_ptr<RuntimeDevice> device,
                                                      int64_t bytes) {
  CACHALOT_ASSIGN_OR_RETURN(void* data, device->AllocateRaw(bytes));
  return std::shared_ptr<DeviceBlock>(
      new DeviceBlock(std::move(device), static_cast<std::byte*>(data), bytes));
}

DeviceBlock::DeviceBlock(std::shared_ptr<RuntimeDevice> device, std::byte* data, int64_t bytes)
    : device_(std::move(device)), data_(data), bytes_(bytes) {}

DeviceBlock::~DeviceBlock() { device_->FreeRaw(data_); }

Result<std::unique_ptr<PinnedBlock>> PinnedBlock::New(std::shared_ptr<RuntimeDevice> device,
                                                      int64_t bytes) {
  device->Bind();
  void* data = nullptr;
  const aclError code = device->symbols().aclrtMallocHost(&data, static_cast<size_t>(bytes));
  if (code != ACL_SUCCESS) {
    return tl::unexpected(device->Explain(fmt::format("{} bytes of pinned memory", bytes), code));
  }
  return std::unique_ptr<PinnedBlock>(
      new PinnedBlock(std::move(device), static_cast<std::byte*>(data), bytes));
}

PinnedBlock::PinnedBlock(std::shared_ptr<RuntimeDevice> device, std::byte* data, int64_t bytes)
    : device_(std::move(device)), data_(data), bytes_(bytes) {}

PinnedBlock::~PinnedBlock() {
  device_->Bind();
  device_->symbols().aclrtFreeHost(data_);
}

Result<std::byte*> StreamArena::Take(int64_t bytes, bool may_grow) {
  const int64_t size = RoundUp(PaddedSize(bytes), kDeviceAlignment);
  const int64_t capacity = block_ == nullptr ? 0 : block_->bytes();
  if (used_ + size > capacity) {
    if (!may_grow) {
      return nullptr;
    }
    // Room for all that was taken since Rewind: the same calls fit into one block the next time.
    const int64_t wanted = std::max({used_ + size, 2 * capacity, kLeastBlock});
    CACHALOT_ASSIGN_OR_RETURN(std::shared_ptr<DeviceBlock> block,
                              DeviceBlock::New(device_, wanted));
    if (block_ != nullptr) {
      retired_.push_back(std::move(block_));
    }
    block_ = std::move(block);
    ++growths_;
    // What was taken before stays where it is; its room here is left for the calls of the next time.
  }
  std::byte* data = block_->data() + used_;
  used_ += size;
  return data;
}

}  // namespace cachalot::ascend
