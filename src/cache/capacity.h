// The capacity plan: how many pages, and what each pool costs, as a pure function. The pools
// allocate exactly what it says (capacity_test.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/shape.h"
#include "cache/state_layout.h"
#include "tensor/rows.h"

namespace cachalot {

// How a device keeps rows; see RowLayoutsOf in pools.h.
struct CacheRows {
  RowLayout kv;
  RowLayout index;  // width 0 where no layer has ratio 4
};

struct CacheOptions {
  int64_t max_requests = 1;
  int64_t c128_page_entries = 16;  // a positive multiple of 16
  int64_t step_tokens = 512;       // new tokens of a step, of all requests together
  StateKind state = StateKind::kRing;
  bool speculative = false;  // rings large enough for drafts
};

// One kind of buffer, and how many layers have one.
struct PoolPlan {
  std::string name;
  int64_t buffers = 0;
  int64_t rows = 0;
  int64_t row_bytes = 0;

  int64_t buffer_bytes() const { return rows * row_bytes; }
  int64_t bytes() const { return buffers * buffer_bytes(); }
};

struct CachePlan {
  CacheGeometry geometry;
  CacheRows rows;
  StateLayout c4_layout;  // of state
  StateLayout c128_layout;
  PoolPlan window;
  PoolPlan c4;
  PoolPlan index;
  PoolPlan c128;
  PoolPlan c4_state;
  PoolPlan index_state;
  PoolPlan c128_state;

  std::vector<PoolPlan> pools() const;
  int64_t bytes() const;
  // One line for each pool that exists: name, buffers, rows, bytes.
  std::string Report() const;
};

// Room for `full_tokens` tokens, of which `swa_tokens`, or all where that is more, have window rows
// at a time; both are rounded up to pages. kInvalidArgument for numbers that are not positive or
// overflow slot ids.
Result<CachePlan> PlanForTokens(const CacheShape& shape, const CacheRows& rows,
                                const CacheOptions& options, int64_t full_tokens,
                                int64_t swa_tokens);

// The most tokens that `bytes` hold, `swa_share` of them, in (0, 1], with window rows, but no less
// than WindowTokensFor asks. kResourceExhausted, with the least that would do, where there is not
// room for one page of tokens.
Result<CachePlan> PlanForBytes(const CacheShape& shape, const CacheRows& rows,
                               const CacheOptions& options, int64_t bytes, double swa_share);

// Window tokens that suffice for max_requests where each step takes at most `step_tokens` new
// tokens in all and is followed by EvictPast for its requests: the window and a page begun at
// either end for each request, and the step's own.
int64_t WindowTokensFor(const CacheShape& shape, int64_t max_requests, int64_t step_tokens);

}  // namespace cachalot
