#include "backends/cpu/ops/hc_head/ref.h"
#include "backends/cpu/ops/hc_head/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<HcHeadParams>> HcHeadVariants() {
  static constexpr Variant<HcHeadParams> kVariants[] = {
      {"avx512_hc_head", Isa::kAvx512, SupportsAll, Avx512HcHead},
      {"avx2_hc_head", Isa::kAvx2, SupportsAll, Avx2HcHead},
      {"ref_hc_head", Isa::kRef, SupportsAll, RefHcHead},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
