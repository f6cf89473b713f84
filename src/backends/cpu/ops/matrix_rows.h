// How the references read a weight: a row of it as doubles, and products with it.
#pragma once

#include <span>

#include "tensor/matrix.h"

namespace cachalot::cpu {

// values[c] = element (row, c) of the matrix; `values` holds matrix.cols.
void DecodeMatrixRow(const Matrix& matrix, int64_t row, std::span<double> values);

// Sum of weights[i] * x[i], in rising i.
double Dot(std::span<const double> weights, const float* x);

}  // namespace cachalot::cpu
