// An Ascend device on the emulator, for tests: the emulator's settings, its findings, and tensors
// that stand on the host and on the device.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/ascend/ascend_device.h"
#include "backends/ascend/emulator_scene.h"
#include "device/device.h"

namespace cachalot::ascend {

class Emulator : public EmulatorScene {
 public:
  using Settings = std::vector<std::pair<std::string, std::string>>;

  // All limits on sizes lifted, and these settings.
  explicit Emulator(const Settings& settings) : EmulatorScene({{"small_models", "1"}}) {
    for (const auto& [name, value] : settings) {
      Set({{name.c_str(), value}});
    }
  }

  Result<std::unique_ptr<Device>> Open(AscendOptions options = {}) const {
    options.libraries.path = ASCEND_EMULATOR_LIBRARY;
    return NewAscendDevice(options);
  }
};

// Copies of host tensors on a device. Host activations are float32 and go there in bf16: their
// values must be of that dtype to be equal.
class Mirror {
 public:
  Mirror(Device& device, Stream& stream)
      : device_(device), stream_(stream), placer_(device.NewWeightPlacer()) {}

  Tensor AsIs(const Tensor& host) {
    if (host.empty()) {
      return {};
    }
    const Tensor tensor = Take(host.dtype, host.shape);
    stream_.Upload(host.data, tensor);
    return tensor;
  }

  Tensor Activation(const Tensor& host) {
    const Tensor tensor = Take(DType::kBf16, host.shape);
    std::vector<Bf16> values(static_cast<size_t>(host.num_elements()));
    std::transform(host.As<float>(), host.As<float>() + values.size(), values.begin(), FloatToBf16);
    stream_.Upload(values.data(), tensor);
    return tensor;
  }

  // Not yet written: whatever the device has there.
  Tensor Empty(DType dtype, const Shape& shape) { return Take(dtype, shape); }

  RowPool Pool(const RowPool& host) {
    RowPool pool = host;
    pool.data = AsIs({host.data, DType::kU8, {host.num_rows * host.layout.bytes()}}).data;
    return pool;
  }

  Matrix Weight(const Matrix& host, WeightUse use = WeightUse::kLinear, int64_t groups = 1) {
    return *placer_->Place(host, use, groups);
  }
  Tensor Norm(const Tensor& host) { return *placer_->Place(host, WeightUse::kNorm); }
  std::vector<ExpertWeights> Experts(const std::vector<ExpertWeights>& host) {
    return *placer_->PlaceExperts(
        static_cast<int64_t>(host.size()),
        [&](int64_t e) -> Result<ExpertWeights> { return host[static_cast<size_t>(e)]; });
  }

  // Waits. Floats of any dtype, integers as floats.
  std::vector<float> Values(const Tensor& tensor) {
    std::vector<uint8_t> bytes = Bytes(tensor);
    std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      switch (tensor.dtype) {
        case DType::kBf16:
          values[i] = Bf16ToFloat(reinterpret_cast<const Bf16*>(bytes.data())[i]);
          break;
        case DType::kF32:
          values[i] = reinterpret_cast<const float*>(bytes.data())[i];
          break;
        default:
          values[i] = static_cast<float>(reinterpret_cast<const int32_t*>(bytes.data())[i]);
          break;
      }
    }
    return values;
  }

  std::vector<uint8_t> Bytes(const Tensor& tensor) {
    std::vector<uint8_t> bytes(static_cast<size_t>(tensor.bytes()));
    stream_.Download(tensor, bytes.data());
    const Status status = stream_.Synchronize();
    EXPECT_TRUE(status) << status.error().message;
    return bytes;
  }

 private:
  Tensor Take(DType dtype, const Shape& shape) {
    buffers_.push_back(*device_.Allocate(shape.num_elements() * SizeOf(dtype)));
    return buffers_.back().As(dtype, shape);
  }

  Device& device_;
  Stream& stream_;
  std::unique_ptr<WeightPlacer> placer_;
  std::vector<Buffer> buffers_;
};

}  // namespace cachalot::ascend
