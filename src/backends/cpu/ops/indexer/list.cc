#include "backends/cpu/ops/indexer/ref.h"
#include "backends/cpu/ops/indexer/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<IndexerParams>> IndexerVariants() {
  static constexpr Variant<IndexerParams> kVariants[] = {
      {"avx512_indexer", Isa::kAvx512, VectorIndexerSupports, Avx512Indexer},
      {"avx2_indexer", Isa::kAvx2, VectorIndexerSupports, Avx2Indexer},
      {"ref_indexer", Isa::kRef, SupportsAll, RefIndexer},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
