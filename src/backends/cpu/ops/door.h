// Checks that the doors share. A failed check is a bug of the caller: it names the operator's field
// and aborts.
#pragma once

#include <initializer_list>

#include "base/check.h"
#include "tensor/matrix.h"
#include "tensor/rows.h"
#include "tensor/tensor.h"

namespace cachalot::cpu {

// A dimension of -1 takes any size.
void CheckTensor(const Tensor& tensor, DType dtype, std::initializer_list<int64_t> shape,
                 const char* field);
// Values and scales have the dtypes and shapes that the format asks for.
void CheckMatrix(const Matrix& matrix, int64_t rows, int64_t cols, const char* field);
void CheckPool(const RowPool& pool, int64_t width, const char* field);

}  // namespace cachalot::cpu
