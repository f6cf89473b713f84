#include "backends/cpu/ops/indexer/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<IndexerParams>> IndexerVariants() {
  static constexpr Variant<IndexerParams> kVariants[] = {
      {"ref_indexer", Isa::kRef, SupportsAll, RefIndexer},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
