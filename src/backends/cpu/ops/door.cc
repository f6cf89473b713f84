#include "backends/cpu/ops/door.h"

namespace cachalot::cpu {

void CheckTensor(const Tensor& tensor, DType dtype, std::initializer_list<int64_t> shape,
                 const char* field) {
  CACHALOT_CHECK(tensor.dtype == dtype, "{} is {}, expected {}", field, NameOf(tensor.dtype),
                 NameOf(dtype));
  bool fits = tensor.shape.rank() == static_cast<int>(shape.size());
  int axis = 0;
  for (const int64_t wanted : shape) {
    fits = fits && (wanted < 0 || tensor.shape[axis] == wanted);
    ++axis;
  }
  CACHALOT_CHECK(fits, "{} is {}, expected {}", field, tensor.shape.ToString(),
                 Shape(shape).ToString());
  CACHALOT_CHECK(!tensor.empty() || tensor.num_elements() == 0, "{} has no memory", field);
}

void CheckMatrix(const Matrix& matrix, int64_t rows, int64_t cols, const char* field) {
  CACHALOT_CHECK((rows < 0 || matrix.rows == rows) && (cols < 0 || matrix.cols == cols),
                 "{} is [{}, {}], expected [{}, {}]", field, matrix.rows, matrix.cols, rows, cols);
  const int64_t r = matrix.rows;
  const int64_t c = matrix.cols;
  switch (matrix.format) {
    case MatrixFormat::kF32:
      return CheckTensor(matrix.values, DType::kF32, {r, c}, field);
    case MatrixFormat::kBf16:
      return CheckTensor(matrix.values, DType::kBf16, {r, c}, field);
    case MatrixFormat::kFp8Block:
      CheckTensor(matrix.values, DType::kF8E4M3, {r, c}, field);
      return CheckTensor(
          matrix.scales, DType::kF8E8M0,
          {(r + kFp8BlockSize - 1) / kFp8BlockSize, (c + kFp8BlockSize - 1) / kFp8BlockSize},
          field);
    case MatrixFormat::kFp4Block:
      CACHALOT_CHECK_EQ(c % kFp4BlockSize, 0);
      CheckTensor(matrix.values, DType::kI8, {r, c / 2}, field);
      return CheckTensor(matrix.scales, DType::kF8E8M0, {r, c / kFp4BlockSize}, field);
    case MatrixFormat::kInt8Channel:
      CheckTensor(matrix.values, DType::kI8, {r, c}, field);
      return CheckTensor(matrix.scales, DType::kF32, {r}, field);
  }
}

void CheckPool(const RowPool& pool, int64_t width, const char* field) {
  CACHALOT_CHECK(!pool.empty(), "{} has no memory", field);
  CACHALOT_CHECK(pool.layout.width == width, "{} has rows of {}, expected {}", field,
                 pool.layout.width, width);
  CACHALOT_CHECK(pool.layout.consistent(), "{}: its format loses its rounding", field);
  CACHALOT_CHECK(!pool.layout.planar, "{} is planar, expected row by row", field);
}

void CheckIndices(const Tensor& indices, int64_t limit, const char* field) {
  const int64_t count = indices.num_elements();
  const int32_t* values = indices.As<int32_t>();
  for (int64_t i = 0; i < count; ++i) {
    CACHALOT_CHECK(0 <= values[i] && values[i] < limit, "{}[{}] is {}, expected 0 to {}", field, i,
                   values[i], limit - 1);
  }
}

void CheckApart(const Tensor& a, const Tensor& b, const char* fields) {
  CACHALOT_CHECK(a.bytes() == 0 || b.bytes() == 0 || a.raw() + a.bytes() <= b.raw() ||
                     b.raw() + b.bytes() <= a.raw(),
                 "{} overlap", fields);
}

void CheckRope(const RopeTable& table, int64_t width) {
  CACHALOT_CHECK(table.dim >= 0 && table.dim % 2 == 0 && table.dim <= width,
                 "a rope of {} in rows of {}", table.dim, width);
  CACHALOT_CHECK_EQ(static_cast<int64_t>(table.frequencies.size()), table.dim / 2);
}

int64_t CheckRequests(const StepRequests& requests, int64_t tokens) {
  CheckTensor(requests.start_pos, DType::kI32, {-1}, "start_pos");
  const int64_t count = requests.start_pos.shape[0];
  CheckTensor(requests.query_starts, DType::kI32, {count + 1}, "query_starts");
  const int32_t* starts = requests.query_starts.As<int32_t>();
  CACHALOT_CHECK(starts[0] == 0 && starts[count] <= tokens,
                 "query_starts go from {} to {}, expected 0 to at most {}", starts[0],
                 starts[count], tokens);
  for (int64_t b = 0; b < count; ++b) {
    CACHALOT_CHECK_LE(starts[b], starts[b + 1]);
    CACHALOT_CHECK_GE(requests.start_pos.As<int32_t>()[b], 0);
  }
  return count;
}

void CheckPages(const Tensor& pages, int64_t request, int64_t first, int64_t end,
                int64_t page_items, int64_t page_rows, int64_t num_rows, const char* field) {
  if (first >= end) {
    return;
  }
  const int64_t per_request = pages.shape[1];
  const int64_t last_page = (end - 1) / page_items;
  CACHALOT_CHECK(first >= 0 && last_page < per_request, "{}: request {} needs page {} and has {}",
                 field, request, last_page, per_request);
  const int32_t* page = pages.As<int32_t>() + request * per_request;
  for (int64_t i = first / page_items; i <= last_page; ++i) {
    CACHALOT_CHECK(page[i] >= 0 && (int64_t{page[i]} + 1) * page_rows <= num_rows,
                   "{}: page {} of request {} is {}, beyond {} rows", field, i, request, page[i],
                   num_rows);
  }
}

}  // namespace cachalot::cpu
