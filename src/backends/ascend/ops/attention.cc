#include <cmath>

#include "backends/ascend/ops/ops.h"
#include "base/check.h"

namespace cachalot::ascend {
namespace {

constexpr int64_t kBand = 4;
constexpr int64_t kCausal = 3;

View PoolView(const RowPool& pool, int64_t page_rows) {
  if (pool.empty()) {
    return {};
  }
  return {pool.data, ACL_BF16, {pool.num_rows / page_rows, page_rows, 1, pool.layout.width}};
}

}  // namespace

void RunAttention(OpContext& context, const AttentionParams& params) {
  const StepBuffers& step = context.step;
  const StepFields& f = step.fields();
  const int64_t tokens = params.q.shape[0];
  const double scale = 1 / std::sqrt(static_cast<double>(params.q.shape[2]));
  const bool compressed = params.ratio > 0;
  const View window = PoolView(params.window, params.window_page_rows);
  const Tensor window_pages = f.block ? step.Ints(f.window_pages) : params.window_pages;
  const View entries = compressed ? PoolView(params.entries, params.page_entries) : View();
  const View entry_pages = compressed ? View(params.entry_pages) : View();
  const View selected = params.selected.empty()
                            ? View()
                            : View(params.selected).Reshaped({tokens, 1, params.selected.shape[1]});
  const int64_t ratio = compressed ? params.ratio : 1;
  const CompressionFields& c = params.ratio == 4 ? f.c4 : f.c128;
  const StepField& schedule = params.ratio == 4     ? f.c4_schedule
                              : params.ratio == 128 ? f.c128_schedule
                                                    : f.window_schedule;
  if (context.custom()) {
    Call(context.stream, context.symbols().SparseAttnSharedkv, params.q, window, entries, nullptr,
         selected, window_pages, entry_pages, step.Ints(f.query_starts), nullptr, nullptr, nullptr,
         step.Ints(f.kv_lengths), params.sink, step.Ints(schedule), scale, ratio, kBand, kCausal, 0,
         0, f.window_left, 0, "TND", "PA_ND", false, params.o, View::Empty(ACL_FLOAT));
    return;
  }
  Call(context.stream, context.symbols().SparseFlashMla, params.q, window, entries, nullptr,
       selected, window_pages, entry_pages, step.Ints(f.query_starts), nullptr, nullptr, nullptr,
       step.Ints(f.kv_lengths), compressed ? step.Ints(c.lengths) : Tensor(),
       compressed ? step.Ints(c.residual) : Tensor(), nullptr, nullptr, params.sink,
       step.Ints(schedule), scale, ratio, kBand, kCausal, f.window_left, 0, "TND", "PA_BBND", 1,
       false, params.o, nullptr);
}

}  // namespace cachalot::ascend
