#include "backends/cpu/ops/hc_head/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<HcHeadParams>> HcHeadVariants() {
  static constexpr Variant<HcHeadParams> kVariants[] = {
      {"ref_hc_head", Isa::kRef, SupportsAll, RefHcHead},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
