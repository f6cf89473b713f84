#include "backends/cpu/ops/attention/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<AttentionParams>> AttentionVariants() {
  static constexpr Variant<AttentionParams> kVariants[] = {
      {"ref_attention", Isa::kRef, SupportsAll, RefAttention},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
