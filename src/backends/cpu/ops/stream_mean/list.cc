#include "backends/cpu/ops/ops.h"
#include "backends/cpu/ops/stream_mean/ref.h"

namespace cachalot::cpu {

std::span<const Variant<StreamMeanParams>> StreamMeanVariants() {
  static constexpr Variant<StreamMeanParams> kVariants[] = {
      {"ref_stream_mean", Isa::kRef, SupportsAll, RefStreamMean},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
