#include "backends/cpu/ops/linear/ref.h"
#include "backends/cpu/ops/linear/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<LinearParams>> LinearVariants() {
  static constexpr Variant<LinearParams> kVariants[] = {
      {"avx512_linear", Isa::kAvx512, SupportsAll, Avx512Linear},
      {"avx2_linear", Isa::kAvx2, SupportsAll, Avx2Linear},
      {"ref_linear", Isa::kRef, SupportsAll, RefLinear},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
