#include "backends/cpu/ops/hc_post/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<HcPostParams>> HcPostVariants() {
  static constexpr Variant<HcPostParams> kVariants[] = {
      {"ref_hc_post", Isa::kRef, SupportsAll, RefHcPost},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
