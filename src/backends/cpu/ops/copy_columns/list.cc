#include "backends/cpu/ops/copy_columns/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<CopyColumnsParams>> CopyColumnsVariants() {
  static constexpr Variant<CopyColumnsParams> kVariants[] = {
      {"ref_copy_columns", Isa::kRef, SupportsAll, RefCopyColumns},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
