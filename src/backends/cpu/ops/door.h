// Checks that the doors share. A failed check is a bug of the caller: it names the operator's field
// and aborts.
#pragma once

#include <initializer_list>

#include "base/check.h"
#include "device/ops.h"
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
// Every value of an I32 tensor is in [0, limit).
void CheckIndices(const Tensor& indices, int64_t limit, const char* field);
// The two share no memory.
void CheckApart(const Tensor& a, const Tensor& b, const char* fields);
// Frequencies for every pair, and no more pairs than a row of `width` has.
void CheckRope(const RopeTable& table, int64_t width);
// The requests cover the first of `tokens` tokens; returns how many requests there are.
int64_t CheckRequests(const StepRequests& requests, int64_t tokens);
// Items [first, end) of a request lie in pages of page_items items: pages[request] names each of
// those pages, and each is within a pool of num_rows rows, page_rows to a page.
void CheckPages(const Tensor& pages, int64_t request, int64_t first, int64_t end,
                int64_t page_items, int64_t page_rows, int64_t num_rows, const char* field);

}  // namespace cachalot::cpu
