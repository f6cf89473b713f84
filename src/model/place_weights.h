// From a checkpoint's weights, in host memory, to those that a device's operators are given.
#pragma once

#include "checkpoint/weights.h"
#include "device/device.h"

namespace cachalot {

// The config of the model that the device runs: that of the checkpoint, or of what the device has
// it converted to. Its caches are planned by this one.
ModelConfig ConfigOn(const Device& device, ModelConfig config);

// The same weights as views of the device's placer, which they keep; untouched where it has none.
// Where the device's recipe is kW8A8 and the checkpoint's layout is not, they are converted on the
// way, by all cores, one matrix or one expert at a time: wq_b, wo_b and experts to kInt8Channel,
// other matrices to kBf16. `config` is the checkpoint's. The device outlives the weights.
Result<Weights> PlaceWeights(Device& device, Weights weights, const ModelConfig& config);

}  // namespace cachalot
