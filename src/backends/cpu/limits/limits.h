// What this machine can do at best, measured: the yardsticks that benchmarks hold figures against.
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"
#include "threads/thread_pool.h"

namespace cachalot::cpu {

struct MachineLimits {
  double stream_bytes_per_second = 0;  // all threads reading one large buffer, front to back
  double fma_flops_per_second = 0;     // float32 multiply-adds from registers, two operations each
};

// Takes about a second and a buffer of 2 GiB, beyond any cache; the best of several tries, as
// anything else on the machine can only slow them down. `isa` is at least kAvx2.
MachineLimits MeasureLimits(ThreadPool& pool, Isa isa);

}  // namespace cachalot::cpu
