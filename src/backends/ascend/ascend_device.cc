#include "backends/ascend/ascend_device.h"

#include <utility>

#include "backends/ascend/ascend_weight_placer.h"
#include "backends/ascend/runtime_device.h"
#include "backends/ascend/schedule_probe.h"
#include "base/log.h"

namespace cachalot::ascend {
namespace {

constexpr Feature kNeeded[] = {
    Feature::kGraphs,      Feature::kForward,   Feature::kQuantised, Feature::kHyperConnections,
    Feature::kCompression, Feature::kAttention, Feature::kIndexer,   Feature::kExperts,
};

class AscendDevice final : public Device {
 public:
  AscendDevice(std::shared_ptr<RuntimeDevice> runtime, const AscendStreamOptions& options)
      : runtime_(std::move(runtime)), options_(options), name_("ascend " + runtime_->facts().soc) {}

  const char* name() const override { return name_.c_str(); }
  Result<Buffer> Allocate(int64_t bytes) override {
    if (bytes == 0) {
      return Buffer();
    }
    return runtime_->Allocate(bytes);
  }
  std::optional<int64_t> free_bytes() const override {
    const Result<MemoryInfo> memory = runtime_->Memory();
    return memory ? std::optional(memory->free) : std::nullopt;
  }
  std::unique_ptr<Stream> NewStream() override { return NewAscendStream(runtime_, options_); }
  DType activation_dtype() const override { return DType::kBf16; }

  // The chip has no fp8 and no fp4: whatever the model rounds, rows are as W8A8 checkpoints have them.
  RowLayout KvRows(int64_t width, int64_t, RowRounding) const override {
    return {.format = RowFormat::kBf16, .rounding = RowRounding::kNone, .width = width};
  }
  RowLayout IndexRows(int64_t width, RowRounding) const override {
    return {
        .format = RowFormat::kInt8, .rounding = RowRounding::kInt8, .width = width, .planar = true};
  }

  WeightRecipe weight_recipe() const override { return WeightRecipe::kW8A8; }
  std::unique_ptr<WeightPlacer> NewWeightPlacer() override {
    return NewAscendWeightPlacer(runtime_);
  }

 private:
  // Its buffers belong to the runtime's device.
  void Free(void* data, int64_t) override { runtime_->FreeRaw(data); }

  std::shared_ptr<RuntimeDevice> runtime_;
  AscendStreamOptions options_;
  std::string name_;
};

}  // namespace

Result<std::unique_ptr<Device>> NewAscendDevice(const AscendOptions& options) {
  CACHALOT_ASSIGN_OR_RETURN(std::shared_ptr<const Libraries> libraries,
                            Libraries::Load(options.libraries));
  CACHALOT_RETURN_IF_ERROR(libraries->Require(kNeeded));
  spdlog::debug("ascend: operators of the {} package\n{}", NameOf(libraries->flavour()),
                libraries->Table());
  CACHALOT_ASSIGN_OR_RETURN(std::shared_ptr<RuntimeDevice> runtime,
                            RuntimeDevice::Open(std::move(libraries), options.ordinal));
  if (options.stream.host_schedules && runtime->libraries().flavour() == Flavour::kCustom) {
    RuntimeStream stream(runtime,
                         {.upload_slots = 1, .slot_bytes = 1 << 16, .download_bytes = 1 << 16});
    CACHALOT_RETURN_IF_ERROR(CheckSchedules(stream));
  }
  return std::make_unique<AscendDevice>(std::move(runtime), options.stream);
}

}  // namespace cachalot::ascend
