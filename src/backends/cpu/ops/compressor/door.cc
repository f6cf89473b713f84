#include "backends/cpu/ops/door.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/ops/ops.h"

namespace cachalot::cpu {
namespace {

// Earlier positions that are read are somewhere.
void CheckHeldPages(const CompressorParams& params, int64_t request, int64_t first, int64_t start) {
  const int32_t* pages = params.state_pages.As<int32_t>() + request * params.state_pages.shape[1];
  for (int64_t position = first; position < start; ++position) {
    CACHALOT_CHECK(pages[position / params.state_span] > 0,
                   "state_pages: request {} reads position {}, whose page is 0", request, position);
  }
}

}  // namespace

void Compressor(const CompressorParams& params, Context& context) {
  CACHALOT_CHECK(params.ratio == 4 || params.ratio == 128, "ratio is {}, expected 4 or 128",
                 params.ratio);
  CheckTensor(params.norm, DType::kF32, {-1}, "norm");
  const int64_t width = params.norm.shape[0];
  const int64_t groups = params.ratio == 4 ? 2 : 1;
  CheckTensor(params.kv, DType::kF32, {-1, groups * width}, "kv");
  const int64_t tokens = params.kv.shape[0];
  CheckTensor(params.score, DType::kF32, {tokens, groups * width}, "score");
  CheckTensor(params.ape, DType::kF32, {params.ratio, groups * width}, "ape");
  CheckTensor(params.state, DType::kF32, {-1, 2 * groups * width}, "state");
  CheckPool(params.pool, width, "pool");
  CheckRope(params.rope, width);
  CACHALOT_CHECK(params.rms_eps >= 0, "rms_eps is {}", params.rms_eps);
  CACHALOT_CHECK(!params.hadamard || std::has_single_bit(static_cast<uint64_t>(width)),
                 "Hadamard of width {}", width);
  CACHALOT_CHECK(params.state_rows > 0 && params.state_rows % (groups * params.ratio) == 0 &&
                     params.state_span > 0,
                 "state pages of {} rows for {} positions", params.state_rows, params.state_span);

  const int64_t requests = CheckRequests(params.requests, tokens);
  CheckTensor(params.state_pages, DType::kI32, {requests, -1}, "state_pages");
  int64_t closed = 0;
  for (int64_t b = 0; b < requests; ++b) {
    const int32_t* starts = params.requests.query_starts.As<int32_t>() + b;
    const int64_t start = params.requests.start_pos.As<int32_t>()[b];
    const int64_t end = start + starts[1] - starts[0];
    const int64_t entries = end / params.ratio - start / params.ratio;
    closed += entries;
    // The first entry reads back to the start of its group, or of the one before.
    const int64_t first =
        entries > 0 ? std::max<int64_t>(start / params.ratio - (groups - 1), 0) * params.ratio
                    : start;
    CheckPages(params.state_pages, b, start == end ? end : first, end, params.state_span,
               params.state_rows, params.state.shape[0], "state_pages");
    CheckHeldPages(params, b, first, start);
  }
  CheckTensor(params.entry_slots, DType::kI32, {-1}, "entry_slots");
  CACHALOT_CHECK(params.entry_slots.shape[0] >= closed, "entry_slots is {}, expected at least {}",
                 params.entry_slots.shape.ToString(), closed);
  CheckIndices(params.entry_slots.Rows(0, closed), params.pool.num_rows, "entry_slots");
  // The variants begin where the two products are there.
  Linear({.x = params.x, .w = params.wkv, .y = params.kv}, context);
  Linear({.x = params.x, .w = params.wgate, .y = params.score}, context);
  RunFirst(CompressorVariants(), params, context);
}

}  // namespace cachalot::cpu
