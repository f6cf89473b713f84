// tokenizer.json as Hugging Face defines it, read and checked. Only what DeepSeek's tokenizers use
// is supported: byte-level BPE, no normaliser, Split patterns before ByteLevel. Whatever else would
// change ids or text is refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/vocabulary.h"

namespace cachalot {

inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{128} << 20;
inline constexpr int32_t kMaxTokenIds = 1
                                        << 20;  // ids lie below; eight times DeepSeek's vocabulary

struct TokenizerFile {
  // The ordinary tokens. Every single byte is one; ids may be missing, as those of added tokens
  // are.
  Vocabulary vocabulary;
  // In order of rank, each pair once; each result's bytes are those of its parts. None makes an
  // added token.
  std::vector<Merge> merges;
  // Distinct ids and contents; no id has ordinary bytes as well.
  std::vector<AddedToken> added_tokens;
  // Split patterns in order, as the file has them.
  std::vector<std::string> patterns;
};

// `source` names the text in errors: "tokenizer.json: model.vocab: …".
Result<TokenizerFile> ParseTokenizerFile(std::string_view text, const std::string& source);

}  // namespace cachalot
