#include "cache/paged_state.h"

#include <algorithm>

namespace cachalot {
namespace {

// How far the watermark is behind the last token: two groups of ratio 4 or one of 128, and some
// slack.
int64_t RowsKept(int64_t ratio) { return ratio == 4 ? 24 : 192; }

}  // namespace

int64_t StatePagesPerRequest(int64_t ratio, int64_t page_tokens) {
  return std::max<int64_t>(2, CeilDiv(18 * ratio, 10 * page_tokens) + 1);
}

// A page is longest held from just above its watermark, kept - 1 rows behind the last token.
int64_t PagedDraftTokens(int64_t ratio) {
  return (StatePagesPerRequest(ratio) - 1) * kPageTokens - (RowsKept(ratio) - 1);
}

int64_t PagedStatePages(int64_t ratio, int64_t max_requests, int64_t step_tokens) {
  return StatePagesPerRequest(ratio) * max_requests + step_tokens / (PagedDraftTokens(ratio) + 1);
}

StateLayout PagedStateLayout(int64_t num_pages) {
  return {kPageTokens, kPageTokens, num_pages, (num_pages + 1) * kPageTokens};
}

int64_t StateTail(int64_t ratio, int64_t tokens) {
  const int64_t begun = tokens % kPageTokens;
  // The group before the next one may begin in the page before.
  const bool reaches_back = ratio == 4 && begun < 4 && tokens >= kPageTokens;
  return reaches_back ? begun + kPageTokens : begun;
}

int64_t StateWatermark(int64_t ratio, int64_t committed) {
  return std::max<int64_t>(0, committed - RowsKept(ratio)) / kPageTokens * kPageTokens;
}

int64_t FirstStateRead(int64_t ratio, int64_t tokens) {
  const int64_t group = tokens / ratio * ratio;
  return ratio == 4 ? std::max<int64_t>(0, group - ratio) : group;
}

}  // namespace cachalot
