#include "backends/cpu/ops/linear/vector.h"

#include <algorithm>

#include "backends/cpu/context.h"
#include "device/ops.h"

namespace cachalot::cpu {
namespace {

// Rows are shared out in quads, as the kernels take them.
constexpr int64_t kQuad = 4;

// Below this many inputs for each thread, one packs them all: waking the others takes longer.
constexpr int64_t kInputsWorthAThread = 2;

// With fewer rows than this for each thread, threads share out the tokens instead.
constexpr int64_t kRowsWorthAThread = 32;

}  // namespace

void RunProduct(const Product& product, Context& context, const LinearKernel* kernels) {
  const Matrix& w = product.w;
  const LinearKernel& kernel = kernels[static_cast<size_t>(w.format)];
  ThreadPool& pool = context.pool();
  const int64_t packed_bytes = kernel.packed_bytes(w.cols);
  const int64_t inputs = product.tokens * product.groups;
  uint8_t* packed = context.packed_inputs().Reserve<uint8_t>(inputs * packed_bytes);
  const auto pack = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kernel.pack({.x = product.x + i * w.cols,
                   .cols = w.cols,
                   .begin = 0,
                   .end = w.cols,
                   .packed = packed + i * packed_bytes});
    }
  };
  if (inputs < kInputsWorthAThread * pool.num_threads()) {
    pack(0, inputs);
  } else {
    pool.ParallelFor(inputs, pack);
  }

  const LinearTask whole = {.values = w.values.raw(),
                            .scales = w.scales.raw(),
                            .cols = w.cols,
                            .x_stride = product.groups * packed_bytes,
                            .tokens = product.tokens,
                            .y = product.y,
                            .y_stride = w.rows,
                            .accumulate = product.accumulate};
  const int64_t group_rows = w.rows / product.groups;
  const bool by_tokens =
      w.rows < kRowsWorthAThread * pool.num_threads() && product.tokens >= pool.num_threads();
  pool.Run([&](int thread) {
    LinearTask task = whole;
    task.scratch = context.thread_scratch(thread).Reserve<uint8_t>(kLinearScratchBytes);
    if (by_tokens) {
      const Range tokens = Range::Part(product.tokens, thread, pool.num_threads());
      task.tokens = tokens.end - tokens.begin;
      task.y += tokens.begin * w.rows;
      for (int64_t group = 0; group < product.groups; ++group) {
        task.x = packed + tokens.begin * task.x_stride + group * packed_bytes;
        task.row_begin = group * group_rows;
        task.row_end = task.row_begin + group_rows;
        kernel.multiply(task);
      }
      return;
    }
    const Range quads = Range::Part((w.rows + kQuad - 1) / kQuad, thread, pool.num_threads());
    const int64_t end = std::min(quads.end * kQuad, w.rows);
    for (int64_t row = quads.begin * kQuad; row < end; row = task.row_end) {
      const int64_t group = row / group_rows;
      task.x = packed + group * packed_bytes;
      task.row_begin = row;
      task.row_end = std::min(end, (group + 1) * group_rows);
      kernel.multiply(task);
    }
  });
}

namespace {

Product ProductOf(const LinearParams& params) {
  return {params.w,      params.x.As<float>(), params.x.shape[0],
          params.groups, params.y.As<float>(), params.accumulate};
}

}  // namespace

void Avx2Linear(const LinearParams& params, Context& context) {
  RunProduct(ProductOf(params), context, avx2::kLinearKernels);
}

void Avx512Linear(const LinearParams& params, Context& context) {
  RunProduct(ProductOf(params), context, avx512::kLinearKernels);
}

void AmxLinear(const LinearParams& params, Context& context) {
  RunProduct(ProductOf(params), context, amx::kLinearKernels);
}

}  // namespace cachalot::cpu
