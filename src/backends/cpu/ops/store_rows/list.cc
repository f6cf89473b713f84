#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/store_rows/ref.h"
#include "backends/cpu/ops/store_rows/vector.h"

namespace cachalot::cpu {

std::span<const Variant<StoreRowsParams>> StoreRowsVariants() {
  static constexpr Variant<StoreRowsParams> kVariants[] = {
      {"avx512_store_rows", Isa::kAvx512, VectorStoreRowsSupports, Avx512StoreRows},
      {"avx2_store_rows", Isa::kAvx2, VectorStoreRowsSupports, Avx2StoreRows},
      {"ref_store_rows", Isa::kRef, SupportsAll, RefStoreRows},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
