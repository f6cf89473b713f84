// How the references read a weight: a row of it as doubles, and products with it.
#pragma once

#include <span>

#include "tensor/matrix.h"

namespace cachalot::cpu {

// values[c] = element (row, c) of the matrix; `values` holds matrix.cols.
void DecodeMatrixRow(const Matrix& matrix, int64_t row, std::span<double> values);

// Sum of weights[i] * x[i], in rising i.
template <typename T>
double Dot(std::span<const double> weights, const T* x) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i] * x[i];
  }
  return sum;
}

}  // namespace cachalot::cpu
