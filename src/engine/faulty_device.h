// A device that fails when it is told to, for this room's tests: another device's work, of which a
// wait can go wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/forwarding_device.h"

namespace cachalot {

// The waits for a device, and which of them fails.
struct Faults {
  int64_t waits = 0;
  int64_t fail_at = -1;                 // the number of a wait, from 1
  std::function<void()> before_upload;  // may be empty
};

class FaultyStream final : public ForwardingStream {
 public:
  FaultyStream(std::unique_ptr<Stream> stream, Faults& faults)
      : ForwardingStream(std::move(stream)), faults_(faults) {}

  void Upload(const void* host, Tensor device) override {
    if (faults_.before_upload) {
      faults_.before_upload();
    }
    ForwardingStream::Upload(host, device);
  }
  void Download(Tensor device, void* host) override {
    ForwardingStream::Download(device, host);
    downloads_.emplace_back(host, device.bytes());
  }
  // What was on its way to the host when the device failed is not what was asked for.
  Status Synchronize() override {
    const Status status = ForwardingStream::Synchronize();
    const auto downloads = std::exchange(downloads_, {});
    if (++faults_.waits != faults_.fail_at) {
      return status;
    }
    for (const auto& [host, bytes] : downloads) {
      std::memset(host, 0x55, static_cast<size_t>(bytes));
    }
    return MakeError(StatusCode::kDeviceFault, "the device failed at wait {}", faults_.waits);
  }

 private:
  Faults& faults_;
  std::vector<std::pair<void*, int64_t>> downloads_;  // since the last wait
};

class FaultyDevice final : public ForwardingDevice {
 public:
  // `faults` outlive the device's streams.
  FaultyDevice(std::unique_ptr<Device> device, Faults& faults)
      : ForwardingDevice(std::move(device)), faults_(faults) {}

  std::unique_ptr<Stream> NewStream() override {
    return std::make_unique<FaultyStream>(ForwardingDevice::NewStream(), faults_);
  }

 private:
  Faults& faults_;
};

}  // namespace cachalot
