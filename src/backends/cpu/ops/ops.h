// The CPU's operators. Folder ops/<op>/ has door.cc (checks every field, then runs the first
// variant that takes the problem), list.cc (the variants), ref.cc (the definition) and, where a
// faster one exists, vector.cc with its kernels avx2.cc and avx512.cc.
#pragma once

#include "backends/cpu/variants.h"
#include "device/ops.h"

namespace cachalot::cpu {

#define CACHALOT_CPU_OPERATOR(name)                        \
  void name(const name##Params& params, Context& context); \
  std::span<const Variant<name##Params>> name##Variants();

CACHALOT_CPU_OPERATOR(Embedding)
CACHALOT_CPU_OPERATOR(BroadcastStreams)
CACHALOT_CPU_OPERATOR(StreamMean)
CACHALOT_CPU_OPERATOR(CopyColumns)
CACHALOT_CPU_OPERATOR(GatherRows)
CACHALOT_CPU_OPERATOR(RmsNorm)
CACHALOT_CPU_OPERATOR(Rope)
CACHALOT_CPU_OPERATOR(Linear)
CACHALOT_CPU_OPERATOR(HcPre)
CACHALOT_CPU_OPERATOR(HcPost)
CACHALOT_CPU_OPERATOR(HcHead)
CACHALOT_CPU_OPERATOR(StoreRows)
CACHALOT_CPU_OPERATOR(Compressor)
CACHALOT_CPU_OPERATOR(Indexer)
CACHALOT_CPU_OPERATOR(Attention)
CACHALOT_CPU_OPERATOR(MoeGate)
CACHALOT_CPU_OPERATOR(Experts)

#undef CACHALOT_CPU_OPERATOR

}  // namespace cachalot::cpu
