// From the matrices of any checkpoint to those of a W8A8 one, one at a time: for devices that
// multiply no 8-bit or 4-bit floats.
#pragma once

#include <cstddef>
#include <vector>

#include "checkpoint/weights.h"
#include "tensor/matrix.h"

namespace cachalot {

// Memory of one converted matrix, which the next conversion into it takes again.
class MatrixBuffer {
 public:
  // A matrix whose values are anything. kBf16 or kInt8Channel.
  Matrix Make(MatrixFormat format, int64_t rows, int64_t cols);

 private:
  std::vector<std::byte> values_;
  std::vector<float> scales_;
};

// Row by row, in threads as share_rows has it: scale = max |row| / 127, codes to nearest, ties to
// even. A view of `buffer`, or the source itself where it is kInt8Channel.
Matrix ToInt8Channel(const Matrix& source, const Weights::ShareRows& share_rows,
                     MatrixBuffer& buffer);

// Values to nearest, ties to even: exact from kFp8Block and kFp4Block but where a value is below
// the normal range of bfloat16. A view of `buffer`, or the source itself where it is kBf16, or
// kInt8Channel, which W8A8 files may have anywhere.
Matrix ToBf16(const Matrix& source, const Weights::ShareRows& share_rows, MatrixBuffer& buffer);

// The config of a model whose matrices were converted: cache rows and index keys are rounded as
// those of a W8A8 checkpoint are.
ModelConfig W8A8ConfigOf(ModelConfig config);

}  // namespace cachalot
