// How the attention and indexer operators deal their work to the cube cores, and the tensor of 1024
// INT32 that carries this from a metadata operator (or from the host) to them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "op.h"

namespace ascend_emulator {

inline constexpr int64_t kTableWords = 1024;
using Table = std::array<int32_t, kTableWords>;

// What is dealt. A row is a tile of the score matrix (query token x head) of one request.
struct AttentionWork {
  std::vector<int64_t> queries;  // tokens of each request
  std::vector<int64_t> keys;     // raw tokens that the last query of each request sees
  int64_t heads = 0;
  int64_t cores = 0;
  bool window = true;  // attends to raw tokens; the indexer does not
  int64_t mask = 4;    // of raw tokens: 0 none, 3 causal, 4 band
  int64_t left = 127;  // of the band; -1: no bound
  int64_t right = 0;
  int64_t ratio = 0;     // raw tokens of a compressed one; 0: there are none
  int64_t topk = 0;      // compressed tokens that a query picks; 0: takes all
  int64_t row_tile = 0;  // 0: heads, as on A2 and A3
  int64_t key_tile = 512;
};

// What one core takes: rows [begin, end), counted within a request; end (b, 0) is the end of b - 1.
struct CoreRange {
  int64_t begin_request = 0;
  int64_t begin_row = 0;
  int64_t end_request = 0;
  int64_t end_row = 0;
  int64_t blocks = 0;  // tiles of keys over all its rows
};

// Ranges of the cores that have work, in order: together they cover every row once.
std::vector<CoreRange> DealRows(const AttentionWork& work);

// Whose table it is. The values stand in the fingerprint.
enum class TableKind : int32_t {
  kSparseAttnSharedkv = 1,
  kSparseFlashMla = 2,
  kVllmQuantLightningIndexer = 3,
  kQuantLightningIndexerV2 = 4,
};

// 36 records of cube cores, then 72 of 8 words for vector cores (all zero: no row is split), then
// unused words. A record is {enabled, begin request, begin row, 0, end request, end row, 0, 0} and,
// for kSparseFlashMla alone, a ninth word: the largest `blocks` of any core.
//
// From word 900 on, unused in both forms, the metadata operators leave a fingerprint: a magic word,
// kind, heads, cores, window, mask, left, right, ratio, topk, number of requests, FNV-1a hash of the
// query lengths and of the key lengths (two words each, low first).
Table EncodeTable(TableKind kind, const AttentionWork& work);

// Whether `table` is one for this call; the kernel has the fault where not. A table with the magic
// word is compared by its fingerprint, so that the message can name what differs, stale lengths
// too. One without (made by the host) of the attention operators must hold the very ranges that the
// device would make. Ranges are checked in any case: whole, in order, on cores that exist.
bool CheckTable(Kernel& kernel, const int32_t* table, TableKind kind, const AttentionWork& work);

}  // namespace ascend_emulator
