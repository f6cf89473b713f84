// A device that fails when it is told to, for this room's tests: another device's work, of which a
// wait can go wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/device.h"

namespace cachalot {

// The waits for a device, and which of them fails.
struct Faults {
  int64_t waits = 0;
  int64_t fail_at = -1;                 // the number of a wait, from 1
  std::function<void()> before_upload;  // may be empty
};

class FaultyStream final : public Stream {
 public:
  FaultyStream(std::unique_ptr<Stream> stream, Faults& faults)
      : stream_(std::move(stream)), faults_(faults) {}

#define CACHALOT_OPERATOR(name) \
  void name(const name##Params& params) override { stream_->name(params); }
#include "device/operators.def"
#undef CACHALOT_OPERATOR

  void Upload(const void* host, Tensor device) override {
    if (faults_.before_upload) {
      faults_.before_upload();
    }
    stream_->Upload(host, device);
  }
  void Download(Tensor device, void* host) override {
    stream_->Download(device, host);
    downloads_.emplace_back(host, device.bytes());
  }
  void Copy(Tensor src, Tensor dst) override { stream_->Copy(src, dst); }
  // What was on its way to the host when the device failed is not what was asked for.
  Status Synchronize() override {
    const Status status = stream_->Synchronize();
    const auto downloads = std::exchange(downloads_, {});
    if (++faults_.waits != faults_.fail_at) {
      return status;
    }
    for (const auto& [host, bytes] : downloads) {
      std::memset(host, 0x55, static_cast<size_t>(bytes));
    }
    return MakeError(StatusCode::kDeviceFault, "the device failed at wait {}", faults_.waits);
  }
  void BeginCapture() override { stream_->BeginCapture(); }
  std::unique_ptr<Graph> EndCapture() override { return stream_->EndCapture(); }
  void Replay(const Graph& graph) override { stream_->Replay(graph); }
  void ShareRows(int64_t rows, const std::function<void(int64_t, int64_t)>& visit) override {
    stream_->ShareRows(rows, visit);
  }

 private:
  const std::unique_ptr<Stream> stream_;
  Faults& faults_;
  std::vector<std::pair<void*, int64_t>> downloads_;  // since the last wait
};

// Its buffers are the other device's own.
class FaultyDevice final : public Device {
 public:
  // `faults` outlive the device's streams.
  FaultyDevice(std::unique_ptr<Device> device, Faults& faults)
      : device_(std::move(device)), faults_(faults) {}

  const char* name() const override { return device_->name(); }
  Result<Buffer> Allocate(int64_t bytes) override { return device_->Allocate(bytes); }
  std::unique_ptr<Stream> NewStream() override {
    return std::make_unique<FaultyStream>(device_->NewStream(), faults_);
  }
  DType activation_dtype() const override { return device_->activation_dtype(); }
  RowLayout KvRows(int64_t width, int64_t rope_dim, RowRounding rounding) const override {
    return device_->KvRows(width, rope_dim, rounding);
  }
  RowLayout IndexRows(int64_t width, RowRounding rounding) const override {
    return device_->IndexRows(width, rounding);
  }

 private:
  void Free(void*, int64_t) override {}

  const std::unique_ptr<Device> device_;
  Faults& faults_;
};

}  // namespace cachalot
