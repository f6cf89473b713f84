#include "backends/cpu/ops/linear/ref.h"
#include "backends/cpu/ops/linear/vector.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {
namespace {

const char* AmxSupports(const LinearParams& params) {
  const bool fits =
      params.w.format != MatrixFormat::kInt8Channel || params.w.cols <= amx::kMaxInt8Cols;
  return fits ? nullptr : "sums of so many int8 products leave 32 bits";
}

}  // namespace

std::span<const Variant<LinearParams>> LinearVariants() {
  static constexpr Variant<LinearParams> kVariants[] = {
      {"amx_linear", Isa::kAmx, AmxSupports, AmxLinear},
      {"avx512_linear", Isa::kAvx512, SupportsAll, Avx512Linear},
      {"avx2_linear", Isa::kAvx2, SupportsAll, Avx2Linear},
      {"ref_linear", Isa::kRef, SupportsAll, RefLinear},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
