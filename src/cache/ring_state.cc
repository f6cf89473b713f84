#include "cache/ring_state.h"

#include <algorithm>

namespace cachalot {

RingRows RingRowsFor(bool speculative) {
  return speculative ? RingRows{16, 256} : RingRows{8, 128};
}

int64_t StateBufferRows(int64_t num_rings, int64_t ring_rows) {
  return RoundUpTo(num_rings * ring_rows + ring_rows + 1, kPageTokens);
}

int64_t C4StateRow(SlotId window_slot, const RingRows& rings) {
  return window_slot.value < 0
             ? -1
             : window_slot.value / kPageTokens * rings.c4 + window_slot.value % rings.c4;
}

int64_t C128StateRow(RequestSlot slot, TokenPos position, const RingRows& rings) {
  return position.value < 0 ? -1 : slot.value * rings.c128 + position.value % rings.c128;
}

Status CheckDraftWidth(const CacheShape& shape, int64_t num_tokens) {
  const RingRows rings = RingRowsFor(true);
  const struct {
    int64_t ratio;
    int64_t limit;
  } limits[] = {{4, rings.c4 - 8 + 2}, {128, rings.c128 - 128 + 2}};
  for (const auto& [ratio, limit] : limits) {
    if (shape.CountLayers(ratio) > 0 && num_tokens > limit) {
      return MakeError(StatusCode::kUnsupported,
                       "speculation: {} tokens to verify at once, but layers of ratio {} take at "
                       "most {}",
                       num_tokens, ratio, limit);
    }
  }
  return {};
}

}  // namespace cachalot
