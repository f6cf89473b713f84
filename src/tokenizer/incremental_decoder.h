// Ids to text as they come: what goes out is whole UTF-8 characters, at once. One decoder serves
// one answer, on one thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "io/utf8.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

// All that Push and Finish return, put together, is ReplaceInvalidUtf8 of the bytes of all ids. At
// most three bytes, the beginning of a character, are held back.
class IncrementalDecoder {
 public:
  // The tokenizer must outlive the decoder.
  explicit IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that this id completes, perhaps none. An id without a token is an error and changes
  // nothing.
  Result<std::string> Push(int32_t id);
  // What was held back, as U+FFFD; the decoder is then as new.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  Utf8Stream stream_;
};

}  // namespace cachalot
