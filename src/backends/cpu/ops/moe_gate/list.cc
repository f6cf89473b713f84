#include "backends/cpu/ops/moe_gate/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<MoeGateParams>> MoeGateVariants() {
  static constexpr Variant<MoeGateParams> kVariants[] = {
      {"ref_moe_gate", Isa::kRef, SupportsAll, RefMoeGate},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
