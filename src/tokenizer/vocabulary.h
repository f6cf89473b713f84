// The ordinary tokens of a tokenizer: id → bytes by array, bytes → id by an open-addressed table.
// Immutable once made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cachalot {

inline constexpr int32_t kNoToken = -1;

class Vocabulary {
 public:
  Vocabulary() = default;
  // tokens[id] are the bytes of a token; an empty string marks an id that has none. Non-empty
  // entries are distinct.
  explicit Vocabulary(std::vector<std::string> tokens);

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  std::string_view bytes(int32_t id) const { return tokens_[id]; }
  // The token that is exactly these bytes, or kNoToken.
  int32_t Find(std::string_view bytes) const;

 private:
  // `key` is the bytes themselves where they are at most eight, as in most words of a text, and
  // their hash otherwise: then tokens_ has the last word.
  struct Slot {
    uint64_t key = 0;
    uint32_t size = 0;  // bytes
    int32_t id = kNoToken;
  };

  std::vector<std::string> tokens_;
  std::vector<Slot> slots_;  // a power of two of them, at most half in use
};

}  // namespace cachalot
