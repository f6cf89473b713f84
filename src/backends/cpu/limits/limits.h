// What this machine can do at best, measured: the yardsticks that benchmarks hold figures against.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/isa.h"
#include "device/operator_cost.h"
#include "threads/thread_pool.h"

namespace cachalot::cpu {

struct MachineLimits {
  double stream_bytes_per_second = 0;  // all threads reading one large buffer, front to back
  // Multiply-adds from registers, two operations each; 0 where the machine has not the instructions.
  double fma_flops_per_second = 0;        // float32
  double vnni_ops_per_second = 0;         // AVX-512 VNNI, u8 by s8
  double tile_bf16_flops_per_second = 0;  // AMX
  double tile_int8_ops_per_second = 0;    // AMX

  // Of products of floating-point activations.
  double best_flops_per_second() const {
    return std::max(fma_flops_per_second, tile_bf16_flops_per_second);
  }
  // The least time for so much work: the longer of moving its bytes and doing its arithmetic.
  double SecondsFor(const OperatorCost& cost) const {
    return std::max(cost.bytes / stream_bytes_per_second, cost.flops / best_flops_per_second());
  }
  // Which of the two that is: "memory" or "compute".
  const char* Binding(const OperatorCost& cost) const;
};

// Takes about a second and a buffer of 2 GiB in huge pages where the system gives them, beyond any
// cache; the best of several tries, as anything else on the machine can only slow them down. `isa`
// is at least kAvx2; what is beyond it is not measured.
MachineLimits MeasureLimits(ThreadPool& pool, Isa isa);

}  // namespace cachalot::cpu
