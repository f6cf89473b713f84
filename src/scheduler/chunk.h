// How a step's room for prompts is shared among the prompts being run (docs/contracts/scheduler.md,
// S6 and S7).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cachalot {

// remaining[i]: tokens that prompt i has left, all prompts in order, each standing at a page
// boundary. Returns how many of them to run: all that are left, or whole pages.
std::vector<int64_t> ShareChunk(std::span<const int64_t> remaining, int64_t chunk_tokens);

}  // namespace cachalot
