// The largest scores of many, by counting and without sorting.
#pragma once

#include <cstdint>

namespace cachalot::cpu {

// Writes the indices of the `count` largest of scores[0 ... n) in rising order; n > count >= 1. Of
// equal scores the lower index comes first; NaN counts as -infinity. keys is scratch [n].
void SelectLargest(const float* scores, int64_t n, int64_t count, uint32_t* keys,
                   int32_t* selected);

}  // namespace cachalot::cpu
