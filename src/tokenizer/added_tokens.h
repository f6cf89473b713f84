// Tokens that are found in the raw text before anything else happens to it, such as "<think>".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace cachalot {

struct AddedToken {
  int32_t id;
  std::string content;  // UTF-8, not empty
  bool special;         // left out of decoded text on demand; no effect on encoding
  bool normalized;      // looked for only where no token with normalized = false was found
};

// Finds a set of added tokens in text, leftmost first, of those at one place the longest. Immutable
// once made.
class AddedTokenFinder {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };

  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // The first match that begins at or after `from`; begin = end = text.size() and kNoToken where
  // there is none.
  Match FindNext(std::string_view text, size_t from) const;
  // The token with exactly this content, or kNoToken.
  int32_t Find(std::string_view content) const;

 private:
  // The longest token that `text` begins with; nullptr where none does.
  const AddedToken* LongestPrefix(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // sorted by content as bytes
  bool starts_token_[256] = {};     // by first byte
};

}  // namespace cachalot
