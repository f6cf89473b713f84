#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/rope/ref.h"

namespace cachalot::cpu {

std::span<const Variant<RopeParams>> RopeVariants() {
  static constexpr Variant<RopeParams> kVariants[] = {
      {"ref_rope", Isa::kRef, SupportsAll, RefRope},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
