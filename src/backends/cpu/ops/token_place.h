// Where a token of a step stands.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/ops.h"

namespace cachalot::cpu {

struct TokenPlace {
  int64_t request = 0;
  int64_t position = 0;
};

inline TokenPlace PlaceOf(const StepRequests& requests, int64_t token) {
  const int32_t* starts = requests.query_starts.As<int32_t>();
  const int64_t num_requests = requests.start_pos.num_elements();
  // The last request that starts at or before the token; those without tokens are passed over.
  const int64_t request = std::upper_bound(starts, starts + num_requests, token) - starts - 1;
  return {request, requests.start_pos.As<int32_t>()[request] + token - starts[request]};
}

// A row of a pool whose pages of `page_rows` rows the table `pages` lists.
inline int64_t PagedRow(const int32_t* pages, int64_t page_rows, int64_t index) {
  return pages[index / page_rows] * page_rows + index % page_rows;
}

}  // namespace cachalot::cpu
