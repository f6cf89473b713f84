#include "backends/cpu/ops/attention/ref.h"
#include "backends/cpu/ops/attention/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<AttentionParams>> AttentionVariants() {
  static constexpr Variant<AttentionParams> kVariants[] = {
      {"avx512_attention", Isa::kAvx512, VectorAttentionSupports, Avx512Attention},
      {"avx2_attention", Isa::kAvx2, VectorAttentionSupports, Avx2Attention},
      {"ref_attention", Isa::kRef, SupportsAll, RefAttention},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
