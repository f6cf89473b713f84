#include "backends/cpu/ops/door.h"

#include <bit>

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {

void Indexer(const IndexerParams& params, Context& context) {
  CheckTensor(params.q, DType::kF32, {-1, -1, -1}, "q");
  const int64_t tokens = params.q.shape[0];
  const int64_t heads = params.q.shape[1];
  const int64_t width = params.q.shape[2];
  CACHALOT_CHECK(heads >= 1 && std::has_single_bit(static_cast<uint64_t>(width)),
                 "{} heads of width {}", heads, width);
  CheckTensor(params.weights, DType::kF32, {tokens, heads}, "weights");
  CheckPool(params.keys, width, "keys");
  CACHALOT_CHECK_GE(params.page_entries, 1);
  CACHALOT_CHECK_GE(params.top_k, 1);
  CheckTensor(params.selected, DType::kI32, {tokens, params.top_k}, "selected");
  const int64_t requests = CheckRequests(params.requests, tokens);
  CheckTensor(params.pages, DType::kI32, {requests, -1}, "pages");
  for (int64_t b = 0; b < requests; ++b) {
    const int32_t* starts = params.requests.query_starts.As<int32_t>() + b;
    const int64_t end = params.requests.start_pos.As<int32_t>()[b] + starts[1] - starts[0];
    CheckPages(params.pages, b, 0, starts[0] < starts[1] ? end / 4 : 0, params.page_entries,
               params.page_entries, params.keys.num_rows, "pages");
  }
  RunFirst(IndexerVariants(), params, context);
}

}  // namespace cachalot::cpu
