// The operators of device/ops.h by calls of the vendor's: one function each, in a file of its name or
// of its family. Operands are those that an AscendStream is given; a fault stays with the stream.
#pragma once

#include "backends/ascend/op_context.h"

namespace cachalot::ascend {

#define CACHALOT_OPERATOR(name) void Run##name(OpContext& context, const name##Params& params);
#include "device/operators.def"
#undef CACHALOT_OPERATOR

// What several of them are made of. None begins an operator: scratch of the caller stays.

// x [rows, width], BF16, as int8 with a scale for each row.
struct Quantised {
  Tensor values;  // I8 [rows, width]
  Tensor scales;  // F32 [rows]
};
Quantised Quantise(OpContext& context, const View& x, int64_t rows, int64_t width);

// y = x * w^T, BF16 or F32.
void Multiply(OpContext& context, Tensor x, const Matrix& w, Tensor y);

// y = gamma * x / rms(x) over the last axis of [rows, n]; y is not x. BF16 or F32, gamma too.
void Normalise(OpContext& context, Tensor x, Tensor gamma, double eps, Tensor y);

// Turns the last R values of the rows [T, heads, width], BF16, in place; cos and sin F32 [T, R].
void Rotate(OpContext& context, Tensor x, Tensor cos, Tensor sin);

// pool rows at slots [N, 2] (page, row in it) = updates [N, width]. `pool` is [pages, rows of a
// page, width], its first axis strided where pages hold more than that.
void ScatterRows(OpContext& context, const View& pool, Tensor slots, const View& updates);

// Of BF16 rows [N, W]: the Hadamard transform, then int8 with a scale in F16 for each row. The
// scales are [N].
struct IndexRowsInt8 {
  Tensor values;  // I8 [N, W]
  Tensor scales;  // F16 [N]
};
IndexRowsInt8 QuantiseIndexRows(OpContext& context, Tensor rows);

// Both planes of a planar pool, with pages as the first axis.
struct IndexPlanes {
  View values;  // I8 [pages, page rows, W]
  View scales;  // F16 [pages, page rows, 1]
};
IndexPlanes PlanesOf(const RowPool& pool);
// Rows of a plain pool: [pages, page_rows, W].
View PagesOf(const RowPool& pool, int64_t page_rows);

}  // namespace cachalot::ascend
