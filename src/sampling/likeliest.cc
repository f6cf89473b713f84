#include "sampling/likeliest.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cachalot {
namespace {

// Independent maxima that compilers keep in vector registers.
constexpr size_t kLanes = 16;

float LargestOf(std::span<const float> logits) {
  std::array<float, kLanes> lanes;
  lanes.fill(-HUGE_VALF);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  for (; i < logits.size(); ++i) {
    lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

int32_t ArgMax(std::span<const float> logits) {
  const float largest = LargestOf(logits);
  if (largest == -HUGE_VALF) {
    return 0;
  }
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
}

void FindLikeliest(std::span<const float> logits, int64_t count, std::vector<Candidate>* best) {
  best->clear();
  const size_t wanted = std::min(static_cast<size_t>(count), logits.size());
  if (wanted == 0) {
    return;
  }
  const auto keep_wanted = [&] {
    std::nth_element(best->begin(), best->begin() + static_cast<std::ptrdiff_t>(wanted) - 1,
                     best->end(), IsLikelier);
    best->resize(wanted);
  };
  // What is not above the last of the best so far is not among the best: most of a row goes by with
  // one comparison.
  const size_t room = 2 * wanted + 64;
  float floor = -HUGE_VALF;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > floor) {
      best->push_back({static_cast<int32_t>(i), logits[i]});
      if (best->size() == room) {
        keep_wanted();
        floor = (*best)[wanted - 1].logit;
      }
    }
  }
  if (best->size() > wanted) {
    keep_wanted();
  }
}

}  // namespace cachalot
