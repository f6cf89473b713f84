#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace cachalot {
namespace {

// Multiply-and-fold over eight bytes at a time. A vocabulary file could be made to collide, but
// then only makes itself slow: its ids are bounded when it is read.
uint64_t Hash(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
  uint64_t hash = bytes.size() * kMultiplier;
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t length = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), length);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
    bytes.remove_prefix(length);
  }
  return hash;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  slots_.resize(std::bit_ceil(2 * tokens_.size() + 1));
  for (int32_t id = 0; id < size(); ++id) {
    if (tokens_[id].empty()) {
      continue;
    }
    const uint64_t hash = Hash(tokens_[id]);
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].id != kNoToken) {
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {static_cast<uint32_t>(hash >> 32), id};
  }
}

int32_t Vocabulary::Find(std::string_view bytes) const {
  if (slots_.empty()) {
    return kNoToken;
  }
  const uint64_t hash = Hash(bytes);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.id == kNoToken || (slot.tag == tag && tokens_[slot.id] == bytes)) {
      return slot.id;
    }
  }
}

}  // namespace cachalot
