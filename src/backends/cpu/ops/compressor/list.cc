#include "backends/cpu/ops/compressor/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<CompressorParams>> CompressorVariants() {
  static constexpr Variant<CompressorParams> kVariants[] = {
      {"ref_compressor", Isa::kRef, SupportsAll, RefCompressor},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
