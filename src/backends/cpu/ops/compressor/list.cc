#include "backends/cpu/ops/compressor/ref.h"
#include "backends/cpu/ops/compressor/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<CompressorParams>> CompressorVariants() {
  static constexpr Variant<CompressorParams> kVariants[] = {
      {"avx512_compressor", Isa::kAvx512, VectorCompressorSupports, Avx512Compressor},
      {"avx2_compressor", Isa::kAvx2, VectorCompressorSupports, Avx2Compressor},
      {"ref_compressor", Isa::kRef, SupportsAll, RefCompressor},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
