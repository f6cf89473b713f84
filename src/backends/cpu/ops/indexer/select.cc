#include "backends/cpu/ops/indexer/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace cachalot::cpu {
namespace {

// Unsigned, in the order of the scores; -0 and 0 are one.
uint32_t KeyOf(float score) {
  const float plain = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score + 0.0F;
  const auto bits = std::bit_cast<uint32_t>(plain);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace

void SelectLargest(const float* scores, int64_t n, int64_t count, uint32_t* keys,
                   int32_t* selected) {
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = KeyOf(scores[i]);
  }
  // The key of the last one taken, 11, 11 and 10 bits at a time from the top; `left` of those that
  // share the bits found so far are still to be taken.
  constexpr int kDigitBits = 11;
  uint32_t last = 0;
  uint32_t known = 0;
  int64_t left = count;
  for (int shift = 32 - kDigitBits; known != ~0U; shift = std::max(shift - kDigitBits, 0)) {
    std::array<int64_t, 1U << kDigitBits> counts = {};
    const uint32_t digit_mask = ((1U << kDigitBits) - 1) & (~known >> shift);
    for (int64_t i = 0; i < n; ++i) {
      if ((keys[i] & known) == last) {
        ++counts[(keys[i] >> shift) & digit_mask];
      }
    }
    uint32_t digit = digit_mask;
    for (; counts[digit] < left; --digit) {
      left -= counts[digit];
    }
    last |= digit << shift;
    known |= digit_mask << shift;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (keys[i] > last || (keys[i] == last && left-- > 0)) {
      *selected++ = static_cast<int32_t>(i);
    }
  }
}

}  // namespace cachalot::cpu
