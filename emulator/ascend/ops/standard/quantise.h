// Dynamic INT8 quantisation of one row, as every operator that quantises per token does it.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace ascend_emulator::standard {

// The scale, max |value| / 127; the values become nearest-even(value / scale). A row of zeros has
// scale 0 and stays zero.
inline float QuantiseRow(std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  const float scale = largest / 127.0F;
  if (scale > 0) {
    for (float& value : values) {
      value = std::nearbyint(value / scale);
    }
  }
  return scale;
}

}  // namespace ascend_emulator::standard
