// The core schedule of sparse attention: which cube core takes which (request, token) rows of a
// step. A pure function of lengths that the host knows, in the layout that the custom operators
// read; the metadata operators make the same table on the device.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace cachalot::ascend {

// int32 words, zero where nothing is said:
//   8 c ... 8 c + 7, c < 36     cube core c: enabled; start (request, row, key block); end, not
//                               included, likewise; index of a workspace for split keys
//   288 + 8 v ..., v < 72       vector core v, for keys split between cores: never are
//   864 ... 1023                unused
inline constexpr int64_t kScheduleWords = 1024;
inline constexpr int64_t kScheduleCores = 36;
inline constexpr int64_t kScheduleCoreWords = 8;
using Schedule = std::array<int32_t, kScheduleWords>;

// What a row costs. A row is `tile_rows` query heads of one request, one token where that is the
// number of heads, and sees its keys in blocks of `tile_keys`: the window, then compressed entries.
struct ScheduleProblem {
  int64_t heads = 0;
  int64_t tile_rows = 0;
  int64_t tile_keys = 512;
  int64_t cores = 0;  // cube cores of the device, at most kScheduleCores
  // The window of a token at position p: [p - left, p + right]; -1: no bound.
  int64_t window_left = 127;
  int64_t window_right = 0;
  bool has_window = true;  // else entries alone, as the indexer has them
  int64_t ratio = 0;       // tokens of an entry; 0: no entries
  int64_t top_k = 0;       // entries that a token sees at most; 0: all
};

// Rows in order of request and token, cut into a contiguous range for each core: as much as its
// share of the cost that is left, but no less than the largest row. Of request b: tokens
// [query_starts[b], query_starts[b + 1]), the last of them at position kv_lengths[b] - 1.
Schedule BuildSchedule(const ScheduleProblem& problem, std::span<const int32_t> query_starts,
                       std::span<const int32_t> kv_lengths);

}  // namespace cachalot::ascend
