// Named shapes of the model: small ones to test with and to measure on.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/config.h"

namespace cachalot {

// nano: every kind of layer and an MTP block in 17 MB, for tests. small: 8 layers, 64 experts.
// a3: a layer of each kind in sizes that the operators of an NPU take, 0.37 GB as w8a8. flash4:
// V4-Flash's own layers, four of them. flash and pro: V4-Flash and V4-Pro. Any other name
// is an error that lists these. What a shape leaves open is as in V4-Flash.
Result<ModelConfig> NamedShape(const std::string& name, WeightLayout layout);

// "native", "bf16" or "w8a8".
Result<WeightLayout> ParseWeightLayout(const std::string& name);

}  // namespace cachalot
