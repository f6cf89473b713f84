#include "checkpoint/convert_w8a8.h"

#include <span>
#include <utility>

#include "base/check.h"
#include "numeric/quantise.h"

namespace cachalot {

Matrix MatrixBuffer::Make(MatrixFormat format, int64_t rows, int64_t cols) {
  const bool int8 = format == MatrixFormat::kInt8Channel;
  CACHALOT_CHECK(int8 || format == MatrixFormat::kBf16, "a buffer of {}", NameOf(format));
  Matrix matrix;
  matrix.format = format;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.values = {nullptr, int8 ? DType::kI8 : DType::kBf16, {rows, cols}};
  values_.resize(static_cast<size_t>(matrix.values.bytes()));
  matrix.values.data = values_.data();
  if (int8) {
    scales_.resize(static_cast<size_t>(rows));
    matrix.scales = {scales_.data(), DType::kF32, {rows}};
  }
  return matrix;
}

Matrix ToInt8Channel(const Matrix& source, const Weights::ShareRows& share_rows,
                     MatrixBuffer& buffer) {
  if (source.format == MatrixFormat::kInt8Channel) {
    return source;
  }
  const Matrix to = buffer.Make(MatrixFormat::kInt8Channel, source.rows, source.cols);
  share_rows(source.rows, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(source.cols));
    for (int64_t row = begin; row < end; ++row) {
      ReadRow(source, row, values);
      to.scales.As<float>()[row] =
          QuantiseInt8(values, {to.values.As<int8_t>() + row * to.cols, values.size()});
    }
  });
  return to;
}

Matrix ToBf16(const Matrix& source, const Weights::ShareRows& share_rows, MatrixBuffer& buffer) {
  if (source.format == MatrixFormat::kBf16 || source.format == MatrixFormat::kInt8Channel) {
    return source;
  }
  const Matrix to = buffer.Make(MatrixFormat::kBf16, source.rows, source.cols);
  share_rows(source.rows, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(source.cols));
    for (int64_t row = begin; row < end; ++row) {
      ReadRow(source, row, values);
      Bf16* out = to.values.As<Bf16>() + row * to.cols;
      for (const float value : values) {
        *out++ = FloatToBf16(value);
      }
    }
  });
  return to;
}

ModelConfig W8A8ConfigOf(ModelConfig config) {
  config.layout = WeightLayout::kW8A8;
  config.experts_fp4 = false;
  return config;
}

}  // namespace cachalot
