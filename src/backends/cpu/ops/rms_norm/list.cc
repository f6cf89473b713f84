#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/rms_norm/ref.h"
#include "backends/cpu/ops/rms_norm/vector.h"

namespace cachalot::cpu {

std::span<const Variant<RmsNormParams>> RmsNormVariants() {
  static constexpr Variant<RmsNormParams> kVariants[] = {
      {"avx512_rms_norm", Isa::kAvx512, SupportsAll, Avx512RmsNorm},
      {"avx2_rms_norm", Isa::kAvx2, SupportsAll, Avx2RmsNorm},
      {"ref_rms_norm", Isa::kRef, SupportsAll, RefRmsNorm},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
