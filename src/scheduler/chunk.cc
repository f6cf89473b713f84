#include "scheduler/chunk.h"

#include <algorithm>
#include <numeric>

#include "cache/ids.h"

namespace cachalot {
namespace {

// The longest piece of `remaining` within `room`.
int64_t Piece(int64_t remaining, int64_t room) {
  return remaining <= room ? remaining : room / kPageTokens * kPageTokens;
}

}  // namespace

std::vector<int64_t> ShareChunk(std::span<const int64_t> remaining, int64_t chunk_tokens) {
  std::vector<int64_t> shares(remaining.size());
  if (remaining.empty()) {
    return shares;
  }
  const int64_t half = RoundUpTo(CeilDiv(chunk_tokens, 2), kPageTokens);
  shares[0] = Piece(remaining[0], half);
  int64_t room = chunk_tokens - shares[0];
  std::vector<size_t> shortest_first(remaining.size() - 1);
  std::iota(shortest_first.begin(), shortest_first.end(), size_t{1});
  std::stable_sort(shortest_first.begin(), shortest_first.end(),
                   [&](size_t a, size_t b) { return remaining[a] < remaining[b]; });
  for (const size_t i : shortest_first) {
    shares[i] = Piece(remaining[i], room);
    room -= shares[i];
  }
  // What nobody else could use.
  shares[0] = Piece(remaining[0], shares[0] + room);
  return shares;
}

}  // namespace cachalot
