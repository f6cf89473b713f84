#include "tensor/matrix.h"

namespace cachalot {

const char* NameOf(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::kF32:
      return "f32";
    case MatrixFormat::kBf16:
      return "bf16";
    case MatrixFormat::kFp8Block:
      return "fp8";
    case MatrixFormat::kFp4Block:
      return "fp4";
    case MatrixFormat::kInt8Channel:
      return "int8";
  }
  return "?";
}

float ElementOf(const Matrix& matrix, int64_t row, int64_t col) {
  const int64_t index = row * matrix.cols + col;
  switch (matrix.format) {
    case MatrixFormat::kF32:
      return matrix.values.As<float>()[index];
    case MatrixFormat::kBf16:
      return Bf16ToFloat(matrix.values.As<Bf16>()[index]);
    case MatrixFormat::kFp8Block: {
      const int64_t blocks = (matrix.cols + kFp8BlockSize - 1) / kFp8BlockSize;
      const int64_t block = row / kFp8BlockSize * blocks + col / kFp8BlockSize;
      return E4m3ToFloat(matrix.values.raw()[index]) * Ue8m0ToFloat(matrix.scales.raw()[block]);
    }
    case MatrixFormat::kFp4Block: {
      const uint8_t pair = matrix.values.raw()[index / 2];
      const uint8_t code = col % 2 == 0 ? pair & 0xF : pair >> 4;
      const int64_t block = row * (matrix.cols / kFp4BlockSize) + col / kFp4BlockSize;
      return E2m1ToFloat(code) * Ue8m0ToFloat(matrix.scales.raw()[block]);
    }
    case MatrixFormat::kInt8Channel:
      return static_cast<float>(matrix.values.As<int8_t>()[index]) * matrix.scales.As<float>()[row];
  }
  return 0;
}

}  // namespace cachalot
