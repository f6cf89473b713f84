// Step: what every part of the forward pass works with.
#pragma once

#include "checkpoint/config.h"
#include "device/device.h"
#include "model/batch.h"
#include "model/rope_frequencies.h"
#include "model/workspace.h"

namespace cachalot {

struct Step {
  Stream& stream;
  const ModelConfig& config;
  const RopeFrequencies& rope;
  Workspace& workspace;
  DType activation;
  const Batch& batch;

  int64_t num_tokens() const { return batch.num_tokens; }
  Tensor Take(Shape shape) const { return workspace.Take(activation, shape); }
  Tensor TakeF32(Shape shape) const { return workspace.Take(DType::kF32, shape); }
  Tensor TakeI32(Shape shape) const { return workspace.Take(DType::kI32, shape); }
};

}  // namespace cachalot
