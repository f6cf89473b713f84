#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/store_rows/ref.h"

namespace cachalot::cpu {

std::span<const Variant<StoreRowsParams>> StoreRowsVariants() {
  static constexpr Variant<StoreRowsParams> kVariants[] = {
      {"ref_store_rows", Isa::kRef, SupportsAll, RefStoreRows},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
