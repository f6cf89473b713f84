// The identities of the cache rooms, each its own type: a page is not a slot, a slot is not a
// position. Ids are int32 because kernels read them so; counts and sizes are int64.
#pragma once

#include <cstdint>

#include "base/strong_id.h"

namespace cachalot {

// A page of some pool. Page 0 of every pool is never handed out: in a table it means "nowhere".
using PageId = StrongId<struct PageIdTag>;
// A row of some pool: page * rows of a page + offset. -1: before the first row.
using SlotId = StrongId<struct SlotIdTag>;
// A position in a request's tokens, from 0.
using TokenPos = StrongId<struct TokenPosTag>;
// A place among the running requests. Slot 0 is never handed out.
using RequestSlot = StrongId<struct RequestSlotTag>;

// Tokens of a page. Every compression ratio divides it, so that pages can be resumed and shared.
inline constexpr int64_t kPageTokens = 128;

inline constexpr int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}
inline constexpr int64_t RoundUpTo(int64_t value, int64_t multiple) {
  return CeilDiv(value, multiple) * multiple;
}

}  // namespace cachalot
