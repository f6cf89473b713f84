#include "backends/cpu/ops/experts/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<ExpertsParams>> ExpertsVariants() {
  static constexpr Variant<ExpertsParams> kVariants[] = {
      {"ref_experts", Isa::kRef, SupportsAll, RefExperts},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
