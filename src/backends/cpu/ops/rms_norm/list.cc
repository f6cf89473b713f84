#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/rms_norm/ref.h"

namespace cachalot::cpu {

std::span<const Variant<RmsNormParams>> RmsNormVariants() {
  static constexpr Variant<RmsNormParams> kVariants[] = {
      {"ref_rms_norm", Isa::kRef, SupportsAll, RefRmsNorm},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
