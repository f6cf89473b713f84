#include "backends/cpu/ops/hc_post/ref.h"
#include "backends/cpu/ops/hc_post/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<HcPostParams>> HcPostVariants() {
  static constexpr Variant<HcPostParams> kVariants[] = {
      {"avx512_hc_post", Isa::kAvx512, SupportsHcPostVector, Avx512HcPost},
      {"avx2_hc_post", Isa::kAvx2, SupportsHcPostVector, Avx2HcPost},
      {"ref_hc_post", Isa::kRef, SupportsAll, RefHcPost},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
