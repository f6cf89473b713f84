#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

// Up to here a scan over all neighbours for each merge is faster than a heap.
constexpr size_t kMaxShort = 64;

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
constexpr uint64_t kNoPair = ~uint64_t{0};

uint64_t PairOf(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t SlotOf(uint64_t pair, size_t mask) {
  pair *= 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  return (pair ^ pair >> 32) & mask;
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges)
    : vocabulary_(std::move(vocabulary)) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_.Find({&c, 1});
    CACHALOT_CHECK_NE(byte_ids_[byte], kNoToken);
  }
  slots_.resize(std::bit_ceil(2 * merges.size() + 1), Slot{kNoPair, {kNoRank, kNoToken}});
  const size_t mask = slots_.size() - 1;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = PairOf(merges[rank].left, merges[rank].right);
    size_t at = SlotOf(pair, mask);
    while (slots_[at].pair != kNoPair) {
      at = (at + 1) & mask;
    }
    slots_[at] = {pair, {static_cast<int32_t>(rank), merges[rank].result}};
  }
  byte_pairs_.resize(256 * 256);
  for (int left = 0; left < 256; ++left) {
    for (int right = 0; right < 256; ++right) {
      byte_pairs_[left << 8 | right] = Find(byte_ids_[left], byte_ids_[right]);
    }
  }
  is_whole_.resize(vocabulary_.size());
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary_.size(); ++id) {
    ids.clear();
    Encode(vocabulary_.bytes(id), ids);
    is_whole_[id] = ids.size() == 1 && ids[0] == id;
  }
}

Bpe::Candidate Bpe::Find(int32_t left, int32_t right) const {
  const uint64_t pair = PairOf(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t at = SlotOf(pair, mask);; at = (at + 1) & mask) {
    if (slots_[at].pair == pair || slots_[at].pair == kNoPair) {
      return slots_[at].merge;
    }
  }
}

void Bpe::Encode(std::string_view piece, std::vector<int32_t>& ids) const {
  const int32_t id = vocabulary_.Find(piece);
  if (id != kNoToken && is_whole_[id]) {
    ids.push_back(id);
  } else if (piece.size() <= kMaxShort) {
    EncodeShort(piece, ids);
  } else {
    EncodeLong(piece, ids);
  }
}

void Bpe::EncodeShort(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.empty()) {
    return;
  }
  std::array<int32_t, kMaxShort> symbol;
  std::array<Candidate, kMaxShort> merge;  // merge[i] joins symbol[i] and symbol[i + 1]
  size_t size = piece.size();
  for (size_t i = 0; i < size; ++i) {
    symbol[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  }
  for (size_t i = 0; i + 1 < size; ++i) {
    merge[i] =
        byte_pairs_[static_cast<uint8_t>(piece[i]) << 8 | static_cast<uint8_t>(piece[i + 1])];
  }
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (merge[i].rank < merge[best].rank) {
        best = i;
      }
    }
    if (merge[best].rank == kNoRank) {
      break;
    }
    symbol[best] = merge[best].result;
    std::copy(symbol.begin() + best + 2, symbol.begin() + size, symbol.begin() + best + 1);
    std::copy(merge.begin() + best + 1, merge.begin() + size - 1, merge.begin() + best);
    --size;
    if (best + 1 < size) {
      merge[best] = Find(symbol[best], symbol[best + 1]);
    }
    if (best > 0) {
      merge[best - 1] = Find(symbol[best - 1], symbol[best]);
    }
  }
  ids.insert(ids.end(), symbol.begin(), symbol.begin() + size);
}

void Bpe::EncodeLong(std::string_view piece, std::vector<int32_t>& ids) const {
  CACHALOT_CHECK_LT(piece.size(), size_t{std::numeric_limits<int32_t>::max()});
  // A doubly linked list of symbols, named by the byte they begin at; kNoToken marks one that its
  // left neighbour took in.
  struct Symbol {
    int32_t id;
    int32_t previous;
    int32_t next;
  };
  const auto size = static_cast<int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  // Heap entries are rank and place in one number, lowest first. They are not removed when their
  // pair changes: an entry is stale when the pair now at its place has another rank, and ranks are
  // unique.
  std::vector<uint64_t> entries;
  entries.reserve(piece.size());
  const auto rank_at = [&](int32_t at) {
    const int32_t next = symbols[at].next;
    return next == size ? Candidate{kNoRank, kNoToken} : Find(symbols[at].id, symbols[next].id);
  };
  const auto entry = [](int32_t rank, int32_t at) {
    return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(at);
  };
  for (int32_t i = 0; i < size; ++i) {
    symbols[i] = {byte_ids_[static_cast<uint8_t>(piece[i])], i - 1, i + 1};
  }
  for (int32_t i = 0; i < size; ++i) {
    if (const Candidate merge = rank_at(i); merge.rank != kNoRank) {
      entries.push_back(entry(merge.rank, i));
    }
  }
  std::priority_queue heap(std::greater<uint64_t>{}, std::move(entries));
  while (!heap.empty()) {
    const auto rank = static_cast<int32_t>(heap.top() >> 32);
    const auto at = static_cast<int32_t>(heap.top() & 0xFFFFFFFF);
    heap.pop();
    Symbol& symbol = symbols[at];
    if (symbol.id == kNoToken) {
      continue;
    }
    const Candidate merge = rank_at(at);
    if (merge.rank != rank) {
      continue;
    }
    Symbol& taken = symbols[symbol.next];
    symbol.id = merge.result;
    symbol.next = taken.next;
    taken.id = kNoToken;
    if (symbol.next != size) {
      symbols[symbol.next].previous = at;
    }
    for (const int32_t place : {symbol.previous, at}) {
      if (place < 0) {
        continue;
      }
      if (const Candidate fresh = rank_at(place); fresh.rank != kNoRank) {
        heap.push(entry(fresh.rank, place));
      }
    }
  }
  for (int32_t at = 0; at != size; at = symbols[at].next) {
    ids.push_back(symbols[at].id);
  }
}

}  // namespace cachalot
