#include "backends/cpu/ops/matrix_rows.h"

#include <algorithm>
#include <array>

#include "numeric/formats.h"

namespace cachalot::cpu {
namespace {

template <size_t kCodes>
std::array<double, kCodes> TableOf(float (*value)(uint8_t)) {
  std::array<double, kCodes> table = {};
  for (size_t code = 0; code < kCodes; ++code) {
    table[code] = value(static_cast<uint8_t>(code));
  }
  return table;
}

}  // namespace

void DecodeMatrixRow(const Matrix& matrix, int64_t row, std::span<double> values) {
  static const std::array<double, 256> kE4m3 = TableOf<256>(E4m3ToFloat);
  static const std::array<double, 16> kE2m1 = TableOf<16>(E2m1ToFloat);
  const int64_t cols = matrix.cols;
  switch (matrix.format) {
    case MatrixFormat::kF32: {
      const float* from = matrix.values.As<float>() + row * cols;
      std::copy(from, from + cols, values.begin());
      return;
    }
    case MatrixFormat::kBf16: {
      const Bf16* from = matrix.values.As<Bf16>() + row * cols;
      std::transform(from, from + cols, values.begin(), Bf16ToFloat);
      return;
    }
    case MatrixFormat::kFp8Block: {
      const uint8_t* codes = matrix.values.raw() + row * cols;
      const uint8_t* scales =
          matrix.scales.raw() + row / kFp8BlockSize * ((cols + kFp8BlockSize - 1) / kFp8BlockSize);
      for (int64_t c = 0; c < cols; ++c) {
        values[static_cast<size_t>(c)] = kE4m3[codes[c]] * Ue8m0ToFloat(scales[c / kFp8BlockSize]);
      }
      return;
    }
    case MatrixFormat::kFp4Block: {
      const uint8_t* pairs = matrix.values.raw() + row * (cols / 2);
      const uint8_t* scales = matrix.scales.raw() + row * (cols / kFp4BlockSize);
      for (int64_t c = 0; c < cols; ++c) {
        const size_t code = c % 2 == 0 ? pairs[c / 2] & 0xF : pairs[c / 2] >> 4;
        values[static_cast<size_t>(c)] = kE2m1[code] * Ue8m0ToFloat(scales[c / kFp4BlockSize]);
      }
      return;
    }
    case MatrixFormat::kInt8Channel: {
      const int8_t* codes = matrix.values.As<int8_t>() + row * cols;
      const double scale = matrix.scales.As<float>()[row];
      std::transform(codes, codes + cols, values.begin(),
                     [scale](int8_t code) { return code * scale; });
      return;
    }
  }
}

}  // namespace cachalot::cpu
