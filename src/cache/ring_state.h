// Ring state: where the unfinished groups of the compressors wait. A ring of c4 rows belongs to
// each window page and goes with it; a bank of c128 rows belongs to each request slot. A row is [kv
// | score + ape] in float32, and a cleared one is (0, -inf): it has no weight.
#pragma once

#include <cstdint>

#include "cache/ids.h"
#include "cache/state_layout.h"

namespace cachalot {

// Rows of one ring. Drafts that may be rejected need twice as many: theirs must not overwrite rows
// that the committed tokens still need.
struct RingRows {
  int64_t c4 = 8;
  int64_t c128 = 128;
};
RingRows RingRowsFor(bool speculative);

// Rings 0 ... num_rings.
StateLayout RingStateLayout(int64_t ratio, int64_t num_rings, bool speculative);

// Rows of a state buffer for rings 0 ... num_rings, one spare ring and the dummy, which is the last
// row. Whole multiples of a page.
int64_t StateBufferRows(int64_t num_rings, int64_t ring_rows);

// Row of a position's state; -1 for a slot or position of -1.
int64_t C4StateRow(SlotId window_slot, const RingRows& rings);
int64_t C128StateRow(RequestSlot slot, TokenPos position, const RingRows& rings);

// Most tokens of a request that fit beside the committed ones and may be rejected: ring rows - c *
// ratio + 2.
int64_t RingDraftTokens(int64_t ratio);

}  // namespace cachalot
