#include "cache/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cache/paged_state.h"
#include "cache/ring_state.h"

namespace cachalot {
namespace {

// Slot ids are int32, page 0 included.
constexpr int64_t kMaxPages = (int64_t{1} << 31) / kPageTokens - 1;
constexpr int64_t kMaxRequests = 1 << 16;

Status CheckOptions(const CacheOptions& options) {
  if (options.max_requests <= 0 || options.max_requests > kMaxRequests) {
    return MakeError(StatusCode::kInvalidArgument, "cache: {} requests at once, expected 1 to {}",
                     options.max_requests, kMaxRequests);
  }
  if (options.c128_page_entries <= 0 || options.c128_page_entries % 16 != 0 ||
      options.c128_page_entries > kMaxPages) {
    return MakeError(StatusCode::kInvalidArgument,
                     "cache: {} entries in a c128 page, expected a positive multiple of 16",
                     options.c128_page_entries);
  }
  if (options.step_tokens <= 0 || options.step_tokens > kMaxPages * kPageTokens) {
    return MakeError(StatusCode::kInvalidArgument, "cache: {} tokens of a step, expected 1 to {}",
                     options.step_tokens, kMaxPages * kPageTokens);
  }
  return {};
}

StateLayout LayoutOfState(const CacheOptions& options, int64_t ratio, int64_t num_rings) {
  return options.state == StateKind::kPaged
             ? PagedStateLayout(PagedStatePages(ratio, options.max_requests, options.step_tokens))
             : RingStateLayout(ratio, num_rings, options.speculative);
}

// The plan for page counts that have been checked.
CachePlan PlanForPages(const CacheShape& shape, const CacheRows& rows, const CacheOptions& options,
                       int64_t full_pages, int64_t swa_pages) {
  const int64_t c4_layers = shape.CountLayers(4);
  const int64_t c128_layers = shape.CountLayers(128);
  swa_pages = std::min(swa_pages, full_pages);  // a window page belongs to a full page
  CachePlan plan;
  plan.rows = rows;
  plan.c4_layout = LayoutOfState(options, 4, swa_pages);
  plan.c128_layout = LayoutOfState(options, 128, options.max_requests);
  CacheGeometry& geometry = plan.geometry;
  geometry.max_requests = options.max_requests;
  geometry.full_pages = full_pages;
  geometry.swa_pages = swa_pages;
  geometry.c128_page_entries = options.c128_page_entries;
  geometry.has_c4 = c4_layers > 0;
  geometry.c4_state_pages = c4_layers > 0 ? plan.c4_layout.own_pages : 0;
  geometry.c128_state_pages = c128_layers > 0 ? plan.c128_layout.own_pages : 0;
  geometry.window = shape.window;
  // cache.I21: a full page is one entry, but every request, and every text that ends in the prefix
  // index or parts from another there, may have a c128 page that is not full.
  if (c128_layers > 0) {
    constexpr int64_t kPagesOfAText = 4;
    geometry.c128_pages = CeilDiv(full_pages, kPagesOfAText) + options.max_requests;
  }

  plan.window = {"window", shape.num_window_layers(), (swa_pages + 1) * kPageTokens,
                 rows.kv.bytes()};
  plan.c4 = {"c4", c4_layers, (full_pages + 1) * kC4PageEntries, rows.kv.bytes()};
  plan.index = {"c4 index", c4_layers, (full_pages + 1) * kC4PageEntries, rows.index.bytes()};
  plan.c128 = {"c128", c128_layers, (geometry.c128_pages + 1) * options.c128_page_entries,
               rows.kv.bytes()};
  const auto state = [](const char* name, int64_t buffers, const StateLayout& layout,
                        int64_t floats) {
    return PoolPlan{name, buffers, layout.buffer_rows,
                    floats * static_cast<int64_t>(sizeof(float))};
  };
  plan.c4_state = state("c4 state", c4_layers, plan.c4_layout, StateWidth(4, shape.head_dim));
  plan.index_state =
      state("c4 index state", c4_layers, plan.c4_layout, StateWidth(4, shape.index_head_dim));
  plan.c128_state =
      state("c128 state", c128_layers, plan.c128_layout, StateWidth(128, shape.head_dim));
  return plan;
}

Status CheckPages(const char* name, int64_t tokens) {
  if (tokens <= 0 || tokens > kMaxPages * kPageTokens) {
    return MakeError(StatusCode::kInvalidArgument, "cache: room for {} {} tokens, expected 1 to {}",
                     tokens, name, kMaxPages * kPageTokens);
  }
  return {};
}

}  // namespace

std::vector<PoolPlan> CachePlan::pools() const {
  return {window, c4, index, c128, c4_state, index_state, c128_state};
}

int64_t CachePlan::bytes() const {
  int64_t total = 0;
  for (const PoolPlan& pool : pools()) {
    total += pool.bytes();
  }
  return total;
}

std::string CachePlan::Report() const {
  std::string report;
  for (const PoolPlan& pool : pools()) {
    if (pool.buffers > 0) {
      report += fmt::format("{}: {} layers of {} rows of {} bytes, {} bytes\n", pool.name,
                            pool.buffers, pool.rows, pool.row_bytes, pool.bytes());
    }
  }
  return report;
}

int64_t WindowTokensFor(const CacheShape& shape, int64_t max_requests, int64_t step_tokens) {
  const int64_t window_pages = CeilDiv(std::max(shape.window, kPageTokens), kPageTokens);
  return (max_requests * (window_pages + 2) + CeilDiv(step_tokens, kPageTokens)) * kPageTokens;
}

Result<CachePlan> PlanForTokens(const CacheShape& shape, const CacheRows& rows,
                                const CacheOptions& options, int64_t full_tokens,
                                int64_t swa_tokens) {
  CACHALOT_RETURN_IF_ERROR(CheckOptions(options));
  CACHALOT_RETURN_IF_ERROR(CheckPages("full", full_tokens));
  CACHALOT_RETURN_IF_ERROR(CheckPages("window", swa_tokens));
  return PlanForPages(shape, rows, options, CeilDiv(full_tokens, kPageTokens),
                      CeilDiv(swa_tokens, kPageTokens));
}

Result<CachePlan> PlanForBytes(const CacheShape& shape, const CacheRows& rows,
                               const CacheOptions& options, int64_t bytes, double swa_share) {
  CACHALOT_RETURN_IF_ERROR(CheckOptions(options));
  if (!(swa_share > 0 && swa_share <= 1)) {
    return MakeError(StatusCode::kInvalidArgument,
                     "cache: {} of the tokens with window rows, expected more than 0 and at most 1",
                     swa_share);
  }
  const int64_t least_swa =
      WindowTokensFor(shape, options.max_requests, options.step_tokens) / kPageTokens;
  CACHALOT_RETURN_IF_ERROR(CheckPages("window", least_swa * kPageTokens));
  const auto plan_of = [&](int64_t full_pages) {
    const auto share = static_cast<int64_t>(std::ceil(static_cast<double>(full_pages) * swa_share));
    return PlanForPages(shape, rows, options, full_pages, std::max(least_swa, share));
  };
  if (plan_of(1).bytes() > bytes) {
    return MakeError(StatusCode::kResourceExhausted,
                     "cache: {} bytes do not hold one page of tokens, expected at least {}", bytes,
                     plan_of(1).bytes());
  }
  // Bytes never fall as pages are added, so the largest plan is found by halving.
  int64_t fits = 1;
  int64_t above = kMaxPages + 1;
  while (above - fits > 1) {
    const int64_t middle = fits + (above - fits) / 2;
    (plan_of(middle).bytes() <= bytes ? fits : above) = middle;
  }
  return plan_of(fits);
}

}  // namespace cachalot
