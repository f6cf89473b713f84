#include "core_schedule.h"

#include <algorithm>
#include <limits>

namespace ascend_emulator {
namespace {

constexpr int64_t kCubeRecords = 36;
constexpr int64_t kVectorRecords = 72;
constexpr int64_t kVectorWords = 8;
constexpr int64_t kFingerprintAt = 900;
constexpr int32_t kFingerprintMagic = 0x5C4ED01E;
constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

int64_t CubeWords(TableKind kind) { return kind == TableKind::kSparseFlashMla ? 9 : 8; }

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Time of one tile on a cube core, in the scheduler's units.
int64_t TileCost(int64_t rows, int64_t keys) {
  return 6 * CeilDiv(rows, 16) + 10 * CeilDiv(keys, 64);
}

struct Cost {
  int64_t total = 0;
  int64_t last = 0;  // of the last tile
};

Cost SpanCost(int64_t rows, int64_t keys, int64_t key_tile) {
  if (keys == 0) {
    return {};
  }
  const int64_t full = keys / key_tile;
  const int64_t tail = keys % key_tile;
  const int64_t full_cost = TileCost(rows, key_tile);
  const int64_t tail_cost = tail == 0 ? 0 : TileCost(rows, tail);
  return {full * full_cost + tail_cost, tail == 0 ? full_cost : tail_cost};
}

struct Row {
  Cost cost;
  int64_t blocks = 0;
};

class Dealer {
 public:
  explicit Dealer(const AttentionWork& work)
      : work_(work), row_tile_(work.row_tile > 0 ? work.row_tile : work.heads) {}

  int64_t requests() const { return static_cast<int64_t>(work_.queries.size()); }
  bool empty(int64_t request) const {
    return work_.queries[request] == 0 || work_.keys[request] == 0;
  }
  int64_t rows(int64_t request) const {
    return empty(request) ? 0 : CeilDiv(work_.queries[request] * work_.heads, row_tile_);
  }

  Row row(int64_t request, int64_t index) const {
    const int64_t queries = work_.queries[request];
    const int64_t keys = work_.keys[request];
    const int64_t scores = queries * work_.heads;
    const int64_t first_query = index * row_tile_ / work_.heads;
    const int64_t last_query = (std::min((index + 1) * row_tile_, scores) - 1) / work_.heads;
    // Keys that the tile's first query starts at and its last one ends at.
    int64_t first = 0;
    int64_t last = keys - 1;
    if (work_.mask == 4 && work_.left >= 0) {
      first = first_query - (queries - keys + work_.left);
    } else if (work_.mask == 4) {
      first = std::numeric_limits<int64_t>::min();
    }
    if (work_.mask == 3) {
      last = last_query + keys - queries;
    } else if (work_.mask == 4) {
      last = work_.right < 0 ? kNoBound : last_query + keys - queries + work_.right;
    }
    int64_t window = 0;
    if (first >= keys || last < 0 || last < first) {
      last = 0;
    } else {
      first = std::clamp<int64_t>(first, 0, keys - 1);
      last = std::clamp<int64_t>(last, 0, keys - 1);
      window = last - first + 1;
    }
    if (!work_.window) {
      window = 0;
    }
    int64_t compressed = work_.ratio > 0 ? (last + 1) / work_.ratio : 0;
    if (work_.topk > 0) {
      compressed = std::min(compressed, work_.topk);
    }
    const int64_t height = std::min(row_tile_, scores - index * row_tile_);
    const Cost near = SpanCost(height, window, work_.key_tile);
    const Cost far = SpanCost(height, compressed, work_.key_tile);
    return {{near.total + far.total, compressed > 0 ? far.last : near.last},
            CeilDiv(window, work_.key_tile) + CeilDiv(compressed, work_.key_tile)};
  }

  std::vector<CoreRange> Deal() {
    std::vector<Cost> costs(static_cast<size_t>(requests()));
    int64_t largest_row = 0;
    int64_t left = 0;
    for (int64_t request = 0; request < requests(); ++request) {
      Cost& cost = costs[static_cast<size_t>(request)];
      for (int64_t index = 0; index < rows(request); ++index) {
        const Row r = row(request, index);
        largest_row = std::max(largest_row, r.cost.total);
        cost.total += r.cost.total;
        cost.last = r.blocks > 0 ? r.cost.last : cost.last;
      }
      left += cost.total;
    }
    if (left == 0) {
      return {CoreRange{.end_request = requests()}};
    }

    std::vector<CoreRange> ranges;
    int64_t request = 0;
    int64_t index = 0;
    int64_t rest = costs[0].total;  // of the request that is being dealt
    for (int64_t core = 0; core < work_.cores && request < requests() && left > 0; ++core) {
      CoreRange range{.begin_request = request, .begin_row = index};
      const int64_t limit = std::max(left / (work_.cores - core), largest_row);
      int64_t taken = 0;
      while (request < requests() &&
             (rest == 0 || limit + costs[static_cast<size_t>(request)].last / 2 >= taken + rest)) {
        taken += rest;
        range.blocks += BlocksFrom(request, index);
        ++request;
        index = 0;
        rest = request < requests() ? costs[static_cast<size_t>(request)].total : 0;
      }
      while (request < requests() && index < rows(request)) {
        const Row r = row(request, index);
        if (limit + r.cost.last / 2 < taken + r.cost.total) {
          break;
        }
        taken += r.cost.total;
        rest = std::max<int64_t>(0, rest - r.cost.total);
        range.blocks += r.blocks;
        ++index;
        while (index < rows(request) && row(request, index).blocks == 0) {
          ++index;
        }
      }
      left -= taken;
      range.end_request = request;
      range.end_row = index;
      ranges.push_back(range);
    }
    return ranges;
  }

 private:
  int64_t BlocksFrom(int64_t request, int64_t index) const {
    int64_t blocks = 0;
    for (; index < rows(request); ++index) {
      blocks += row(request, index).blocks;
    }
    return blocks;
  }

  const AttentionWork& work_;
  int64_t row_tile_;
};

uint64_t Hash(const std::vector<int64_t>& values) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const int64_t value : values) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ (static_cast<uint64_t>(value) >> (8 * byte) & 0xFFU)) * 0x100000001B3U;
    }
  }
  return hash;
}

struct Mark {
  const char* name;
  int32_t value;
};

std::vector<Mark> Fingerprint(TableKind kind, const AttentionWork& work) {
  const auto word = [](int64_t value) { return static_cast<int32_t>(value); };
  const uint64_t queries = Hash(work.queries);
  const uint64_t keys = Hash(work.keys);
  const auto low = [](uint64_t hash) { return static_cast<int32_t>(static_cast<uint32_t>(hash)); };
  const auto high = [](uint64_t hash) { return static_cast<int32_t>(hash >> 32U); };
  return {{"kind", word(static_cast<int64_t>(kind))},
          {"heads", word(work.heads)},
          {"cores", word(work.cores)},
          {"window", work.window ? 1 : 0},
          {"mask mode", word(work.mask)},
          {"window left", word(work.left)},
          {"window right", word(work.right)},
          {"ratio", word(work.ratio)},
          {"topk", word(work.topk)},
          {"requests", word(static_cast<int64_t>(work.queries.size()))},
          {"query lengths", low(queries)},
          {"query lengths", high(queries)},
          {"key lengths", low(keys)},
          {"key lengths", high(keys)}};
}

bool CheckFingerprint(Kernel& kernel, const int32_t* table, TableKind kind,
                      const AttentionWork& work) {
  const int32_t* word = table + kFingerprintAt + 1;
  for (const Mark& mark : Fingerprint(kind, work)) {
    const int32_t found = *word++;
    if (found == mark.value) {
      continue;
    }
    if (std::string(mark.name).find("lengths") != std::string::npos) {
      kernel.Fault(kAiCoreException,
                   "metadata is stale: it was made for other {} than those of this call",
                   mark.name);
    } else {
      kernel.Fault(kAiCoreException, "metadata was made for {} {}, the call has {}", mark.name,
                   found, mark.value);
    }
    return false;
  }
  return true;
}

// Whole and in order, whoever made it.
bool CheckRanges(Kernel& kernel, const int32_t* table, TableKind kind, const AttentionWork& work) {
  const int64_t words = CubeWords(kind);
  const auto requests = static_cast<int32_t>(work.queries.size());
  std::pair<int32_t, int32_t> reached{0, 0};
  int64_t enabled = 0;
  for (int64_t core = 0; core < kCubeRecords; ++core) {
    const int32_t* record = table + core * words;
    if (record[0] != 0 && record[0] != 1) {
      kernel.Fault(kAiCoreException, "metadata: core {} has the enable word {}, neither 0 nor 1",
                   core, record[0]);
      return false;
    }
    if (record[0] == 0) {
      continue;
    }
    if (core != enabled || core >= work.cores) {
      kernel.Fault(kAiCoreException,
                   "metadata: core {} is enabled after {} others; the device has {} cores", core,
                   enabled, work.cores);
      return false;
    }
    ++enabled;
    const std::pair<int32_t, int32_t> begin{record[1], record[2]};
    const std::pair<int32_t, int32_t> end{record[4], record[5]};
    if (begin != reached || end < begin || record[3] != 0 || record[6] != 0) {
      kernel.Fault(
          kAiCoreException,
          "metadata: core {} takes rows from ({}, {}) to ({}, {}), but rows are covered up "
          "to ({}, {})",
          core, begin.first, begin.second, end.first, end.second, reached.first, reached.second);
      return false;
    }
    reached = end;
  }
  if (reached != std::pair<int32_t, int32_t>{requests, 0}) {
    kernel.Fault(kAiCoreException, "metadata: rows are covered up to ({}, {}) of {} requests",
                 reached.first, reached.second, requests);
    return false;
  }
  const int32_t* vector_records = table + kCubeRecords * words;
  for (int64_t i = 0; i < kVectorRecords * kVectorWords; ++i) {
    if (vector_records[i] != 0) {
      kernel.Fault(kAiCoreException, "metadata: word {} of the reduction records is {}, not 0", i,
                   vector_records[i]);
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<CoreRange> DealRows(const AttentionWork& work) { return Dealer(work).Deal(); }

Table EncodeTable(TableKind kind, const AttentionWork& work) {
  Table table{};
  const std::vector<CoreRange> ranges = DealRows(work);
  int64_t largest = 0;
  for (const CoreRange& range : ranges) {
    largest = std::max(largest, range.blocks);
  }
  const int64_t words = CubeWords(kind);
  for (size_t core = 0; core < ranges.size(); ++core) {
    const CoreRange& range = ranges[core];
    int32_t* record = table.data() + static_cast<int64_t>(core) * words;
    record[0] = 1;
    record[1] = static_cast<int32_t>(range.begin_request);
    record[2] = static_cast<int32_t>(range.begin_row);
    record[4] = static_cast<int32_t>(range.end_request);
    record[5] = static_cast<int32_t>(range.end_row);
    if (words > 8) {
      record[8] = static_cast<int32_t>(largest);
    }
  }
  int32_t* word = table.data() + kFingerprintAt;
  *word++ = kFingerprintMagic;
  for (const Mark& mark : Fingerprint(kind, work)) {
    *word++ = mark.value;
  }
  return table;
}

bool CheckTable(Kernel& kernel, const int32_t* table, TableKind kind, const AttentionWork& work) {
  const bool ours = table[kFingerprintAt] == kFingerprintMagic;
  if (ours && !CheckFingerprint(kernel, table, kind, work)) {
    return false;
  }
  if (!CheckRanges(kernel, table, kind, work)) {
    return false;
  }
  // The text gives the attention operators' dealing to the word, the indexer's only in its form.
  if (!ours && !work.window) {
    return true;
  }
  const Table expected = EncodeTable(kind, work);
  for (int64_t i = 0; i < kCubeRecords * CubeWords(kind); ++i) {
    if (table[i] != expected[static_cast<size_t>(i)]) {
      kernel.Fault(kAiCoreException, "metadata: core {} has {} in word {}, the lengths ask for {}",
                   i / CubeWords(kind), table[i], i % CubeWords(kind),
                   expected[static_cast<size_t>(i)]);
      return false;
    }
  }
  return true;
}

}  // namespace ascend_emulator
