// quantization_config of config.json: which of the storage layouts a checkpoint has.
#pragma once

#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"

namespace cachalot {

// Sets layout and experts_fp4. Absent: bf16. "fp8" (e4m3 in 128 x 128 blocks, ue8m0 scales):
// native, routed experts by expert_dtype, which is "fp4" or "fp8" and fp8 where absent.
// "compressed-tensors" with int8 weights by channel and int8 inputs by token: W8A8. Anything else
// is unsupported.
void ReadQuantisation(ConfigFields& fields, ModelConfig& config);

}  // namespace cachalot
