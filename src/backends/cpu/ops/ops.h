// The CPU's operators. Folder ops/<op>/ has door.cc (checks every field, then runs the first
// variant that takes the problem), list.cc (the variants), ref.cc (the definition) and, where a
// faster one exists, vector.cc with its kernels avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/variants.h"
#include "device/ops.h"

namespace cachalot::cpu {

#define CACHALOT_OPERATOR(name)                            \
  void name(const name##Params& params, Context& context); \
  std::span<const Variant<name##Params>> name##Variants();
#include "device/operators.def"
#undef CACHALOT_OPERATOR

}  // namespace cachalot::cpu
