// The few best of a wide row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cachalot {

struct Candidate {
  int32_t id;
  float logit;
  double weight = 0;  // its probability, not normalised
};

// Of two equal logits the lower id's comes first.
inline bool IsLikelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The largest logit, ties to the lower id. NaN is never chosen; where nothing is above -infinity it
// is 0.
int32_t ArgMax(std::span<const float> logits);

// Sets `best` to the `count` likeliest above -infinity, or to all where they are fewer, in any
// order.
void FindLikeliest(std::span<const float> logits, int64_t count, std::vector<Candidate>* best);

}  // namespace cachalot
