// The measured loops, one file per instruction set.
#pragma once

#include <cstdint>

namespace cachalot::cpu {

// A loop of independent multiply-adds out of registers.
struct Peak {
  // The sum of all that `rounds` rounds add up.
  double (*run)(int64_t rounds);
  int64_t operations_per_round;  // two for each multiply-add
};

struct Probes {
  // Reads [data, data + bytes), bytes a multiple of 256; the result depends on every bit.
  uint64_t (*read)(const void* data, int64_t bytes);
  Peak fma;  // float32
};

namespace avx2 {
extern const Probes kProbes;
}
namespace avx512 {
extern const Probes kProbes;
}
namespace avx512_vnni {
extern const Peak kInt8;  // u8 by s8; each of 16 * 16 sums grows by 2 in a round
}
namespace amx {           // for a thread of a process that may use tiles
extern const Peak kBf16;  // each of 4 * 256 sums grows by 2 in a round
extern const Peak kInt8;  // s8 by s8; each of 4 * 256 sums grows by 128 in a round
}  // namespace amx

}  // namespace cachalot::cpu
