// Byte-pair encoding of one piece of text: start from single bytes, and as long as some neighbours
// can merge, merge those of the lowest rank, the leftmost first. Immutable once made; may be used
// by any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace cachalot {

struct Merge {
  int32_t left;
  int32_t right;
  int32_t result;
};

class Bpe {
 public:
  Bpe() = default;
  // `merges` in order of rank, each pair once. The vocabulary has every single byte, and each
  // result's bytes are those of its two parts.
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of `piece`. O(n log n) in its length.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  // The rank leads, so that the smaller value is the merge to do first.
  struct Candidate {
    int32_t rank;
    int32_t result;
  };
  struct Slot {
    uint64_t pair;
    Candidate merge;
  };

  Candidate Find(int32_t left, int32_t right) const;
  void EncodeShort(std::string_view piece, std::vector<int32_t>& ids) const;
  void EncodeLong(std::string_view piece, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Slot> slots_;  // open-addressed by pair; a power of two of them, at most half in use
  std::vector<Candidate> byte_pairs_;  // [left byte · 256 + right byte]: most look-ups are of these
  // Whether the bytes of a token encode to that token alone. Most words are such a token, and need
  // no merging.
  std::vector<bool> is_whole_;
};

}  // namespace cachalot
