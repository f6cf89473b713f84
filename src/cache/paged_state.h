// Paged state: the compressors' state in pages of its own, one row for each position, of which a
// request keeps only those that later steps read. What follows from a request's length alone:
// docs/contracts/cache.md, I33 to I37. `ratio` is 4 or 128.
#pragma once

#include <cstdint>

#include "cache/ids.h"
#include "cache/state_layout.h"

namespace cachalot {

// Pages of one request between steps: max(2, ceil(1.8 * ratio / page_tokens) + 1).
int64_t StatePagesPerRequest(int64_t ratio, int64_t page_tokens = kPageTokens);

// Most new tokens of a request for which these pages do, and so the most that may be rejected.
int64_t PagedDraftTokens(int64_t ratio);

// Pages that suffice for max_requests whose steps have at most step_tokens new tokens in all.
int64_t PagedStatePages(int64_t ratio, int64_t max_requests, int64_t step_tokens);

// Of so many pages, and page 0.
StateLayout PagedStateLayout(int64_t num_pages);

// How many of the last of `tokens` tokens have a row when they have come in one step.
int64_t StateTail(int64_t ratio, int64_t tokens);

// Positions below it have no row any more once `committed` tokens are there for good.
int64_t StateWatermark(int64_t ratio, int64_t committed);

// The first position whose row a step reads that begins after `tokens` tokens; `tokens` for none.
int64_t FirstStateRead(int64_t ratio, int64_t tokens);

}  // namespace cachalot
