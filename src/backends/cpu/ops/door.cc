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
}

}  // namespace cachalot::cpu
