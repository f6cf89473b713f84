#include "backends/cpu/ops/broadcast_streams/ref.h"
#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

std::span<const Variant<BroadcastStreamsParams>> BroadcastStreamsVariants() {
  static constexpr Variant<BroadcastStreamsParams> kVariants[] = {
      {"ref_broadcast_streams", Isa::kRef, SupportsAll, RefBroadcastStreams},
  };
  return kVariants;
}

}  // namespace cachalot::cpu
