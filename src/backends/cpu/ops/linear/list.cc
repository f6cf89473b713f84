#include "backends/cpu/ops/linear/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<LinearParams>> LinearVariants() {
  static constexpr Variant<LinearParams> kVariants[] = {
      {"ref_linear", Isa::kRef, SupportsAll, RefLinear},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
