#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/rope/ref.h"
#include "backends/cpu/ops/rope/vector.h"

namespace cachalot::cpu {

std::span<const Variant<RopeParams>> RopeVariants() {
  static constexpr Variant<RopeParams> kVariants[] = {
      {"avx512_rope", Isa::kAvx512, SupportsAll, Avx512Rope},
      {"avx2_rope", Isa::kAvx2, SupportsAll, Avx2Rope},
      {"ref_rope", Isa::kRef, SupportsAll, RefRope},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
