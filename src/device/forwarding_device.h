// Devices and streams that pass everything on to another: what derives from them changes what it
// overrides and nothing else.
#pragma once

#include <memory>
#include <utility>

#include "device/device.h"

namespace cachalot {

class ForwardingStream : public Stream {
 public:
  explicit ForwardingStream(std::unique_ptr<Stream> inner) : inner_(std::move(inner)) {}

#define CACHALOT_OPERATOR(name) \
  void name(const name##Params& params) override { inner_->name(params); }
#include "device/operators.def"
#undef CACHALOT_OPERATOR

  void BeginStep(const StepMetadata& step) override { inner_->BeginStep(step); }
  void Upload(const void* host, Tensor device) override { inner_->Upload(host, device); }
  void Download(Tensor device, void* host) override { inner_->Download(device, host); }
  void Copy(Tensor src, Tensor dst) override { inner_->Copy(src, dst); }
  Status Synchronize() override { return inner_->Synchronize(); }
  void BeginCapture() override { inner_->BeginCapture(); }
  std::unique_ptr<Graph> EndCapture() override { return inner_->EndCapture(); }
  void Replay(const Graph& graph) override { inner_->Replay(graph); }
  void ShareRows(int64_t rows, const std::function<void(int64_t, int64_t)>& visit) override {
    inner_->ShareRows(rows, visit);
  }

 protected:
  Stream& inner() { return *inner_; }

 private:
  const std::unique_ptr<Stream> inner_;
};

// Its buffers are the other device's own.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  const char* name() const override { return inner_->name(); }
  Result<Buffer> Allocate(int64_t bytes) override { return inner_->Allocate(bytes); }
  std::unique_ptr<Stream> NewStream() override { return inner_->NewStream(); }
  std::optional<int64_t> free_bytes() const override { return inner_->free_bytes(); }
  DType activation_dtype() const override { return inner_->activation_dtype(); }
  RowLayout KvRows(int64_t width, int64_t rope_dim, RowRounding rounding) const override {
    return inner_->KvRows(width, rope_dim, rounding);
  }
  RowLayout IndexRows(int64_t width, RowRounding rounding) const override {
    return inner_->IndexRows(width, rounding);
  }
  WeightRecipe weight_recipe() const override { return inner_->weight_recipe(); }
  std::unique_ptr<WeightPlacer> NewWeightPlacer() override { return inner_->NewWeightPlacer(); }

 private:
  void Free(void*, int64_t) override {}

  const std::unique_ptr<Device> inner_;
};

}  // namespace cachalot
