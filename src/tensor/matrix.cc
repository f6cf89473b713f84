#include "tensor/matrix.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "numeric/formats.h"

namespace cachalot {
namespace {

const std::array<float, 256>& E4m3Values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> table = {};
    for (size_t code = 0; code < table.size(); ++code) {
      table[code] = E4m3ToFloat(static_cast<uint8_t>(code));
    }
    return table;
  }();
  return values;
}

}  // namespace

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

void ReadRow(const Matrix& matrix, int64_t row, std::span<float> values) {
  CACHALOT_CHECK_EQ(static_cast<int64_t>(values.size()), matrix.cols);
  const int64_t cols = matrix.cols;
  float* out = values.data();
  switch (matrix.format) {
    case MatrixFormat::kF32:
      std::copy_n(matrix.values.As<float>() + row * cols, cols, out);
      return;
    case MatrixFormat::kBf16: {
      const Bf16* stored = matrix.values.As<Bf16>() + row * cols;
      std::transform(stored, stored + cols, out, Bf16ToFloat);
      return;
    }
    case MatrixFormat::kFp8Block: {
      const std::array<float, 256>& table = E4m3Values();
      const uint8_t* codes = matrix.values.raw() + row * cols;
      const int64_t blocks = (cols + kFp8BlockSize - 1) / kFp8BlockSize;
      const uint8_t* scales = matrix.scales.raw() + row / kFp8BlockSize * blocks;
      for (int64_t begin = 0; begin < cols; begin += kFp8BlockSize) {
        const float scale = Ue8m0ToFloat(scales[begin / kFp8BlockSize]);
        for (int64_t col = begin; col < std::min(begin + kFp8BlockSize, cols); ++col) {
          out[col] = table[codes[col]] * scale;
        }
      }
      return;
    }
    case MatrixFormat::kFp4Block: {
      const uint8_t* pairs = matrix.values.raw() + row * cols / 2;
      const uint8_t* scales = matrix.scales.raw() + row * (cols / kFp4BlockSize);
      for (int64_t col = 0; col < cols; col += 2) {
        const float scale = Ue8m0ToFloat(scales[col / kFp4BlockSize]);
        out[col] = E2m1ToFloat(pairs[col / 2] & 0xF) * scale;
        out[col + 1] = E2m1ToFloat(pairs[col / 2] >> 4) * scale;
      }
      return;
    }
    case MatrixFormat::kInt8Channel: {
      const int8_t* codes = matrix.values.As<int8_t>() + row * cols;
      const float scale = matrix.scales.As<float>()[row];
      for (int64_t col = 0; col < cols; ++col) {
        out[col] = static_cast<float>(codes[col]) * scale;
      }
      return;
    }
  }
}

}  // namespace cachalot
