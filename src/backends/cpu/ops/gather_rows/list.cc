#include "backends/cpu/ops/gather_rows/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<GatherRowsParams>> GatherRowsVariants() {
  static constexpr Variant<GatherRowsParams> kVariants[] = {
      {"ref_gather_rows", Isa::kRef, SupportsAll, RefGatherRows},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
