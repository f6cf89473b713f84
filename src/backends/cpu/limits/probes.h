// The measured loops, one file per instruction set.
#pragma once

#include <cstdint>

namespace cachalot::cpu {

struct Probes {
  // Reads [data, data + bytes), bytes a multiple of 256; the result depends on every bit.
  uint64_t (*read)(const void* data, int64_t bytes);
  // Runs `rounds` rounds of independent multiply-adds and gives their sum; flops_per_round tells
  // how much that is.
  float (*multiply_add)(int64_t rounds);
  int64_t flops_per_round;
};

namespace avx2 {
extern const Probes kProbes;
}
namespace avx512 {
extern const Probes kProbes;
}

}  // namespace cachalot::cpu
