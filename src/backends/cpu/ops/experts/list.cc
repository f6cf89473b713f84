#include "backends/cpu/ops/experts/ref.h"
#include "backends/cpu/ops/experts/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<ExpertsParams>> ExpertsVariants() {
  static constexpr Variant<ExpertsParams> kVariants[] = {
      {"avx512_experts", Isa::kAvx512, SupportsAll, Avx512Experts},
      {"avx2_experts", Isa::kAvx2, SupportsAll, Avx2Experts},
      {"ref_experts", Isa::kRef, SupportsAll, RefExperts},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
