// Where the compressors keep the rows of unfinished groups: in rings (ring_state.h), or in pages of
// their own (paged_state.h). What capacity, pools and tables know of either.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cache/shape.h"

namespace cachalot {

enum class StateKind : uint8_t { kRing, kPaged };

// One ratio's. Position p of a request is in row p % page_rows of the page in column p / span.
struct StateLayout {
  int64_t span = 0;         // positions of a page
  int64_t page_rows = 0;    // rows of a page
  int64_t own_pages = 0;    // pages to be handed out; rings go with window pages or request slots
  int64_t buffer_rows = 0;  // rows of a layer's buffer
};

// Floats of a row: 2 * c * W, with c = 2 for ratio 4 and 1 for ratio 128.
inline constexpr int64_t StateWidth(int64_t ratio, int64_t width) {
  return 2 * (ratio == 4 ? 2 : 1) * width;
}

// Whether `num_tokens` tokens of a request that may all be rejected (the last token and its drafts)
// leave the state of the committed ones alone, and find room for their own. kUnsupported otherwise.
Status CheckDraftWidth(const CacheShape& shape, StateKind kind, int64_t num_tokens);

}  // namespace cachalot
