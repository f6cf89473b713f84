// Where tokens of a step and rows of pages stand.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/ops.h"

namespace cachalot::cpu {

// The first token that belongs to no request; so do all after it.
inline int64_t EndOfRequests(const StepRequests& requests) {
  return requests.query_starts.As<int32_t>()[requests.start_pos.num_elements()];
}

// Sets the rows of those tokens in an output [T, ...].
template <typename T>
void FillBeyondRequests(const StepRequests& requests, const Tensor& output, T value) {
  const Tensor rows = output.Rows(EndOfRequests(requests), output.shape[0]);
  std::fill_n(rows.As<T>(), rows.num_elements(), value);
}

// A row of a pool whose pages of `page_rows` rows the table `pages` lists.
inline int64_t PagedRow(const int32_t* pages, int64_t page_rows, int64_t index) {
  return pages[index / page_rows] * page_rows + index % page_rows;
}

}  // namespace cachalot::cpu
