#include "backends/cpu/ops/moe_gate/ref.h"
#include "backends/cpu/ops/moe_gate/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<MoeGateParams>> MoeGateVariants() {
  static constexpr Variant<MoeGateParams> kVariants[] = {
      {"avx512_moe_gate", Isa::kAvx512, SupportsAll, Avx512MoeGate},
      {"avx2_moe_gate", Isa::kAvx2, SupportsAll, Avx2MoeGate},
      {"ref_moe_gate", Isa::kRef, SupportsAll, RefMoeGate},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
