// What a call of an operator costs at the very least, whoever carries it out: the yardstick of
// benchmarks. Read from its Params, index values included, so they must be in host memory.
#pragma once

#include "device/ops.h"

namespace cachalot {

struct OperatorCost {
  // Moved between memory and processor once: weights and cache rows that the call needs, each
  // counted once however many tokens share it, inputs read and outputs written.
  double bytes = 0;
  // Two for each multiply-add of the products; single passes over values are not counted.
  double flops = 0;

  OperatorCost& operator+=(const OperatorCost& other) {
    bytes += other.bytes;
    flops += other.flops;
    return *this;
  }
};

#define CACHALOT_OPERATOR(name) OperatorCost CostOf(const name##Params& params);
#include "device/operators.def"
#undef CACHALOT_OPERATOR

}  // namespace cachalot
