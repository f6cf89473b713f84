// StepBuffers: a step's image on the device, where the operators of the step find it, and the core
// schedules that the metadata operators make of it there. A step of the same sizes finds every field
// at the same address for as long as the buffers live.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "backends/ascend/device_memory.h"
#include "backends/ascend/runtime_stream.h"
#include "backends/ascend/step_image.h"
#include "base/result.h"

namespace cachalot::ascend {

class StepBuffers {
 public:
  // The stream outlives the buffers. Host schedules are the custom operators' alone; where the
  // library is another they are made on the device whatever the options say.
  StepBuffers(std::shared_ptr<RuntimeDevice> device, RuntimeStream& stream,
              const StepImageOptions& options);

  // One copy to the device, then the metadata operators. Nothing of `step` is kept.
  void Begin(const StepMetadata& step);

  bool begun() const { return data_ != nullptr; }
  const StepFields& fields() const { return image_.fields(); }
  Tensor Ints(const StepField& field) const { return At(field, DType::kI32); }
  Tensor Floats(const StepField& field) const { return At(field, DType::kF32); }
  // The tables of cosines and sines of a rope; null where the step has none of it.
  const RotaryFields* RotaryOf(const RopeTable& table) const;

  // Whether the device holds what the host made, lengths and schedules above all. Waits.
  Status Verify();

 private:
  Tensor At(const StepField& field, DType dtype) const;
  std::byte* MemoryFor(int64_t bytes);
  void MakeSchedules();
  void MakeCustomSchedules();
  void MakeOfficialSchedules();

  std::shared_ptr<RuntimeDevice> device_;
  RuntimeStream& stream_;
  bool host_schedules_;
  StepImage image_;
  std::byte* data_ = nullptr;
  // By size: the powers of two. Recorded graphs refer to them.
  std::map<int64_t, std::shared_ptr<DeviceBlock>> blocks_;
};

}  // namespace cachalot::ascend
