#include "backends/cpu/ops/linear/vector.h"

#include <algorithm>

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {
namespace {

// Rows are shared out in quads, as the kernels take them.
constexpr int64_t kQuad = 4;

void RunLinear(const LinearParams& params, Context& context, const LinearKernel* kernels) {
  const Matrix& w = params.w;
  const LinearKernel kernel = kernels[static_cast<size_t>(w.format)];
  const int64_t group_rows = w.rows / params.groups;
  const LinearTask whole = {.values = w.values.raw(),
                            .scales = w.scales.raw(),
                            .cols = w.cols,
                            .x_stride = params.groups * w.cols,
                            .tokens = params.x.shape[0],
                            .y = params.y.As<float>(),
                            .y_stride = w.rows,
                            .accumulate = params.accumulate};
  const float* x = params.x.As<float>();
  ThreadPool& pool = context.pool();
  pool.Run([&](int thread) {
    LinearTask task = whole;
    task.scratch = context.thread_scratch(thread).Reserve<float>(kLinearScratch);
    const Range quads = Range::Part((w.rows + kQuad - 1) / kQuad, thread, pool.num_threads());
    const int64_t end = std::min(quads.end * kQuad, w.rows);
    for (int64_t row = quads.begin * kQuad; row < end; row = task.row_end) {
      const int64_t group = row / group_rows;
      task.x = x + group * w.cols;
      task.row_begin = row;
      task.row_end = std::min(end, (group + 1) * group_rows);
      kernel(task);
    }
  });
}

}  // namespace

void Avx2Linear(const LinearParams& params, Context& context) {
  RunLinear(params, context, avx2::kLinearKernels);
}

void Avx512Linear(const LinearParams& params, Context& context) {
  RunLinear(params, context, avx512::kLinearKernels);
}

}  // namespace cachalot::cpu
