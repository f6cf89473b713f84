#include "cache/ring_state.h"

#include <limits>

namespace cachalot {

RingRows RingRowsFor(bool speculative) {
  return speculative ? RingRows{16, 256} : RingRows{8, 128};
}

StateLayout RingStateLayout(int64_t ratio, int64_t num_rings, bool speculative) {
  const RingRows rings = RingRowsFor(speculative);
  if (ratio == 4) {
    return {kPageTokens, rings.c4, 0, StateBufferRows(num_rings, rings.c4)};
  }
  // One page for all positions of a request.
  return {std::numeric_limits<int32_t>::max(), rings.c128, 0,
          StateBufferRows(num_rings, rings.c128)};
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

int64_t RingDraftTokens(int64_t ratio) {
  const RingRows rings = RingRowsFor(true);
  return ratio == 4 ? rings.c4 - 2 * ratio + 2 : rings.c128 - ratio + 2;
}

}  // namespace cachalot
