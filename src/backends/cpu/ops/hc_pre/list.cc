#include "backends/cpu/ops/hc_pre/ref.h"
#include "backends/cpu/ops/hc_pre/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<HcPreParams>> HcPreVariants() {
  static constexpr Variant<HcPreParams> kVariants[] = {
      {"avx512_hc_pre", Isa::kAvx512, SupportsAll, Avx512HcPre},
      {"avx2_hc_pre", Isa::kAvx2, SupportsAll, Avx2HcPre},
      {"ref_hc_pre", Isa::kRef, SupportsAll, RefHcPre},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
