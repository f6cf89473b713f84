// Operators that move rows and values: Embedding, BroadcastStreams, StreamMean, CopyColumns,
// GatherRows, StoreRows.
#include "backends/ascend/ops/ops.h"

namespace cachalot::ascend {

void RunEmbedding(OpContext& context, const EmbeddingParams& params) {
  Call(context.stream, context.symbols().Embedding, params.table.values, params.ids, params.y);
}

void RunBroadcastStreams(OpContext& context, const BroadcastStreamsParams& params) {
  const View x = View(params.x).Reshaped({params.x.shape[0], 1, params.x.shape[1]});
  if (params.accumulate) {
    const Tensor sum = context.Scratch(params.y.dtype, params.y.shape);
    Call(context.stream, context.symbols().Add, params.y, x, 1.0F, sum);
    context.stream.Copy(sum, params.y);
  } else {
    Call(context.stream, context.symbols().InplaceCopy, params.y, x);
  }
}

void RunStreamMean(OpContext& context, const StreamMeanParams& params) {
  const Tensor sum = context.Scratch(DType::kF32, params.y.shape);
  const Tensor mean = context.Scratch(DType::kF32, params.y.shape);
  Call(context.stream, context.symbols().ReduceSum, params.x, Ints{1}, false, ACL_FLOAT, sum);
  Call(context.stream, context.symbols().Muls, sum, 1.0F / static_cast<float>(params.x.shape[1]),
       mean);
  Call(context.stream, context.symbols().Cast, mean, ACL_BF16, params.y);
}

void RunCopyColumns(OpContext& context, const CopyColumnsParams& params) {
  const int64_t end = params.column + params.src.shape[1];
  Call(context.stream, context.symbols().InplaceCopy, View(params.dst).Columns(params.column, end),
       params.src);
}

void RunGatherRows(OpContext& context, const GatherRowsParams& params) {
  const int64_t rows = params.src.shape[0];
  const int64_t picked = params.rows.shape[0];
  const int64_t width = params.src.num_elements() / rows;
  Call(context.stream, context.symbols().Embedding, params.src.Reshaped({rows, width}), params.rows,
       params.dst.Reshaped({picked, width}));
}

View PagesOf(const RowPool& pool, int64_t page_rows) {
  return {pool.data, ACL_BF16, {pool.num_rows / page_rows, page_rows, pool.layout.width}};
}

IndexPlanes PlanesOf(const RowPool& pool) {
  const int64_t rows = pool.plane_rows;
  const int64_t pages = pool.num_rows / rows;
  const int64_t page_bytes = rows * pool.layout.bytes();
  IndexPlanes planes;
  planes.values =
      View(pool.data, ACL_INT8, {pages, rows, pool.layout.width}).WithStride(0, page_bytes);
  planes.scales =
      View(pool.int8_scale(0), ACL_FLOAT16, {pages, rows, 1}).WithStride(0, page_bytes / 2);
  return planes;
}

void ScatterRows(OpContext& context, const View& pool, Tensor slots, const View& updates) {
  if (!context.custom()) {
    Call(context.stream, context.symbols().ScatterNdUpdate, pool, slots, updates);
    return;
  }
  Call(context.stream, context.symbols().ScatterNdUpdateV2, pool, slots, updates,
       Ints{pool.strides[0], pool.strides[1], pool.strides[2]});
}

void RunStoreRows(OpContext& context, const StoreRowsParams& params) {
  const Tensor slots = context.step.Ints(context.step.fields().window_slots);
  ScatterRows(context, PagesOf(params.pool, context.step.fields().window_page_rows), slots,
              params.x);
}

}  // namespace cachalot::ascend
