#include "backends/cpu/ops/embedding/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<EmbeddingParams>> EmbeddingVariants() {
  static constexpr Variant<EmbeddingParams> kVariants[] = {
      {"ref_embedding", Isa::kRef, SupportsAll, RefEmbedding},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
