// Instruction sets that kernels are written for, in rising order; each includes the ones before it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cachalot::cpu {

enum class Isa : uint8_t {
  kRef,     // the definition: plain C++
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL
  kAmx,     // AMX tiles, bf16 and int8; AVX512_BF16
};

const char* NameOf(Isa isa);
Result<Isa> ParseIsa(const std::string& name);

// The best that this machine, its operating system included, can run.
Isa DetectIsa();

// What to run with: `requested` must be one that the machine has; where it is empty, the best of
// the machine, capped by the environment's CACHALOT_MAX_ISA.
Result<Isa> ChooseIsa(const std::string& requested);

}  // namespace cachalot::cpu
