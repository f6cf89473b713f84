#include "backends/cpu/ops/hc_pre/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<HcPreParams>> HcPreVariants() {
  static constexpr Variant<HcPreParams> kVariants[] = {
      {"ref_hc_pre", Isa::kRef, SupportsAll, RefHcPre},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
