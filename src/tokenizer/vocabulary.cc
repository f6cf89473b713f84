#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace cachalot {
namespace {

constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

template <typename Word>
uint64_t Load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// Different for different bytes of one length up to eight. Two loads that may overlap are faster
// than a copy of variable length.
uint64_t ShortKey(std::string_view bytes) {
  const char* end = bytes.data() + bytes.size();
  if (bytes.size() >= 4) {
    return Load<uint32_t>(bytes.data()) | Load<uint32_t>(end - 4) << 32;
  }
  if (bytes.size() >= 2) {
    return Load<uint16_t>(bytes.data()) | Load<uint16_t>(end - 2) << 32;
  }
  return bytes.empty() ? 0 : Load<uint8_t>(bytes.data());
}

// A vocabulary could be made to collide, but makes only itself slow.
uint64_t LongKey(std::string_view bytes) {
  uint64_t hash = 0;
  for (size_t at = 0; at + 8 < bytes.size(); at += 8) {
    hash = (hash ^ Load<uint64_t>(bytes.data() + at)) * kMultiplier;
    hash ^= hash >> 32;
  }
  return (hash ^ Load<uint64_t>(bytes.data() + bytes.size() - 8)) * kMultiplier;
}

uint64_t KeyOf(std::string_view bytes) {
  return bytes.size() <= 8 ? ShortKey(bytes) : LongKey(bytes);
}

size_t FirstSlot(uint64_t key, size_t size, size_t mask) {
  const uint64_t hash = (key ^ size) * kMultiplier;
  return (hash ^ hash >> 32) & mask;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  const auto num_tokens = std::ranges::count_if(tokens_, [](const auto& t) { return !t.empty(); });
  slots_.resize(std::bit_ceil(2 * static_cast<size_t>(num_tokens) + 1));
  for (int32_t id = 0; id < size(); ++id) {
    if (tokens_[id].empty()) {
      continue;
    }
    const uint64_t key = KeyOf(tokens_[id]);
    size_t at = FirstSlot(key, tokens_[id].size(), slots_.size() - 1);
    while (slots_[at].id != kNoToken) {
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {key, static_cast<uint32_t>(tokens_[id].size()), id};
  }
}

int32_t Vocabulary::Find(std::string_view bytes) const {
  if (slots_.empty()) {
    return kNoToken;
  }
  const uint64_t key = KeyOf(bytes);
  const size_t mask = slots_.size() - 1;
  for (size_t at = FirstSlot(key, bytes.size(), mask);; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id == kNoToken) {
      return kNoToken;
    }
    if (slot.key == key && slot.size == bytes.size() &&
        (bytes.size() <= 8 || tokens_[slot.id] == bytes)) {
      return slot.id;
    }
  }
}

}  // namespace cachalot
