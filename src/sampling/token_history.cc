#include "sampling/token_history.h"

#include <algorithm>

namespace cachalot {

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const int32_t> prompt) {
  const bool counts_prompt = params.repetition_penalty != 1;
  counts_answer_ = counts_prompt || params.frequency_penalty != 0 || params.presence_penalty != 0;
  if (!counts_prompt) {
    return;
  }
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  counts_.reserve(ids.size());
  for (const int32_t id : ids) {
    counts_.push_back({id, 0});
  }
}

void TokenHistory::Add(int32_t id) {
  if (!counts_answer_) {
    return;
  }
  auto at = std::lower_bound(counts_.begin(), counts_.end(), id,
                             [](const Count& count, int32_t sought) { return count.id < sought; });
  if (at == counts_.end() || at->id != id) {
    at = counts_.insert(at, {id, 0});
  }
  ++at->in_answer;
}

}  // namespace cachalot
