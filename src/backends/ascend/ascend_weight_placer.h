// Weights in the memory of an NPU, as its operators read them:
//   kLinear int8       FRACTAL_NZ [rows, cols], scales F32 [rows]
//   experts            FRACTAL_NZ [E, 2 * I, d] and [E, d, I]; scales F32 [E, 2 * I] and, for the
//                      grouped product, BF16 [E, d]; of a single expert F32 [d]
//   any other matrix   BF16 row by row: of the operators that take FRACTAL_NZ none gives F32, and
//                      none takes groups
//   norms              BF16; all other vectors as they come
// w1 and w3 of an expert, and all experts of a layer, are one tensor: views of single ones only say
// where it begins.
#pragma once

#include <memory>

#include "backends/ascend/runtime_device.h"
#include "device/weight_placer.h"

namespace cachalot::ascend {

std::unique_ptr<WeightPlacer> NewAscendWeightPlacer(std::shared_ptr<RuntimeDevice> device);

}  // namespace cachalot::ascend
