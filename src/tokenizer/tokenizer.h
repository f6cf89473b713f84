// Text ↔ token ids, by a checkpoint's tokenizer.json. Byte-level BPE: any UTF-8 text has ids, and
// ids give back its bytes. Nothing is ever added: a begin-of-sentence token comes from the prompt's
// text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pattern.h"

namespace cachalot {

struct EncodeOptions {
  // Whether added tokens ("<think>", special or not) are recognised in the text. False for text of
  // strangers: then no spelling of an added token gives its id.
  bool special_tokens = true;
};

struct Segment {
  std::string text;
  bool trusted;  // added tokens are recognised only here
};

// Immutable once loaded; all members may be called from any number of threads at once.
class Tokenizer {
 public:
  static Result<Tokenizer> Load(const std::string& path);
  // `source` names the text in errors.
  static Result<Tokenizer> Parse(std::string_view text, const std::string& source);

  // Text that is not UTF-8 is an error that names the byte. Time is linear in the text's length,
  // but for a factor log n in runs that no pattern splits.
  Result<std::vector<int32_t>> Encode(std::string_view text, EncodeOptions options = {}) const;
  // Each segment encoded by itself, one after another: nothing merges across a border. An added
  // token ends a word anyway, so segments cut at added tokens give the ids of the whole text.
  Result<std::vector<int32_t>> EncodeSegments(std::span<const Segment> segments) const;

  // The bytes of all ids, one after another, be they UTF-8 or not; io/utf8.h makes text of them.
  // Special tokens are left out if skip_special. An id without a token is an error.
  Result<std::string> Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // Highest id plus one. An id below it may still have no token.
  int32_t vocab_size() const { return vocab_size_; }
  bool HasToken(int32_t id) const { return !BytesOf(id).empty(); }
  bool IsSpecial(int32_t id) const;
  // The token that is exactly `content` ("<think>", " the"), added tokens first.
  std::optional<int32_t> TokenId(std::string_view content) const;
  // The bytes that `id` stands for; an id without a token is an error. The view lives as long as
  // the tokenizer.
  Result<std::string_view> TokenBytes(int32_t id) const;

 private:
  Tokenizer() = default;
  // Empty where there is no token: no token is.
  std::string_view BytesOf(int32_t id) const;
  // `text` is checked; added tokens are recognised in it if it is trusted.
  Status AppendIds(std::string_view text, bool trusted, std::vector<int32_t>& ids) const;
  // In order, none over another.
  std::vector<AddedTokenFinder::Match> FindAddedTokens(std::string_view text) const;
  // Splits `piece` by the patterns from number `from` on and encodes what comes out.
  Status AppendPiece(std::string_view piece, size_t from, PatternScratch& scratch,
                     std::vector<int32_t>& ids) const;

  Bpe bpe_;
  std::vector<Pattern> patterns_;
  // Added tokens in two rounds, as their `normalized` flag says: the first has the whole text, the
  // second what is left.
  AddedTokenFinder first_;
  AddedTokenFinder second_;
  std::unordered_map<int32_t, AddedToken> added_;  // by id
  int32_t vocab_size_ = 0;
};

}  // namespace cachalot
