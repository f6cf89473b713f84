#include "backends/cpu/ops/door.h"

#include <algorithm>

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {
namespace {

// The window rows of every token of a request.
void CheckWindow(const AttentionParams& params, int64_t request, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const int32_t first = params.key_begin.As<int32_t>()[t];
    const int32_t last = params.key_end.As<int32_t>()[t];
    CACHALOT_CHECK(0 <= first && first <= last, "keys of token {} are {} to {}", t, first, last);
    CheckPages(params.window_pages, request, first, last, params.window_page_rows,
               params.window_page_rows, params.window.num_rows, "window_pages");
  }
}

// `complete` entries may be looked at: the selection names them in rising order, then -1.
void CheckSelected(const AttentionParams& params, int64_t t, int64_t complete) {
  const int64_t count = params.selected.shape[1];
  const int32_t* selected = params.selected.As<int32_t>() + t * count;
  int64_t next = 0;  // the least that may follow
  for (int64_t i = 0; i < count; ++i) {
    CACHALOT_CHECK(selected[i] == -1 || (next <= selected[i] && selected[i] < complete),
                   "selected[{}][{}] is {}, expected -1 or {} to {}", t, i, selected[i], next,
                   complete - 1);
    next = selected[i] == -1 ? complete : selected[i] + 1;
  }
}

}  // namespace

void Attention(const AttentionParams& params, Context& context) {
  CheckTensor(params.q, DType::kF32, {-1, -1, -1}, "q");
  const int64_t tokens = params.q.shape[0];
  const int64_t width = params.q.shape[2];
  CheckTensor(params.sink, DType::kF32, {params.q.shape[1]}, "sink");
  CheckTensor(params.o, DType::kF32, {tokens, params.q.shape[1], width}, "o");
  CheckApart(params.o, params.q, "o and q");
  CheckPool(params.window, width, "window");
  CACHALOT_CHECK_GE(params.window_page_rows, 1);
  CheckTensor(params.key_begin, DType::kI32, {tokens}, "key_begin");
  CheckTensor(params.key_end, DType::kI32, {tokens}, "key_end");
  const int64_t requests = CheckRequests(params.requests, tokens);
  CheckTensor(params.window_pages, DType::kI32, {requests, -1}, "window_pages");
  CACHALOT_CHECK_GE(params.ratio, 0);
  if (params.ratio > 0) {
    CheckPool(params.entries, width, "entries");
    CACHALOT_CHECK_GE(params.page_entries, 1);
    CheckTensor(params.entry_pages, DType::kI32, {requests, -1}, "entry_pages");
    if (!params.selected.empty()) {
      CheckTensor(params.selected, DType::kI32, {tokens, -1}, "selected");
    }
  }
  for (int64_t b = 0; b < requests; ++b) {
    const int64_t begin = params.requests.query_starts.As<int32_t>()[b];
    const int64_t end = params.requests.query_starts.As<int32_t>()[b + 1];
    const int64_t start = params.requests.start_pos.As<int32_t>()[b];
    CheckWindow(params, b, begin, end);
    if (params.ratio == 0 || begin == end) {
      continue;
    }
    CheckPages(params.entry_pages, b, 0, (start + end - begin) / params.ratio, params.page_entries,
               params.page_entries, params.entries.num_rows, "entry_pages");
    for (int64_t t = begin; !params.selected.empty() && t < end; ++t) {
      CheckSelected(params, t, (start + t - begin + 1) / params.ratio);
    }
  }
  RunFirst(AttentionVariants(), params, context);
}

}  // namespace cachalot::cpu
