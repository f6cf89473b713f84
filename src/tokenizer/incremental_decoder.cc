#include "tokenizer/incremental_decoder.h"

#include <algorithm>
#include <utility>

#include "tokenizer/utf8.h"

namespace cachalot {
namespace {

// How many bytes at the end could still become a character.
size_t UnfinishedBytes(std::string_view bytes) {
  for (size_t length = 1; length <= std::min<size_t>(3, bytes.size()); ++length) {
    const std::string_view tail = bytes.substr(bytes.size() - length);
    if (NextUtf8(tail).kind == Utf8Kind::kIncomplete) {
      return length;
    }
  }
  return 0;
}

}  // namespace

Result<std::string> IncrementalDecoder::Push(int32_t id) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string_view bytes, tokenizer_->TokenBytes(id));
  if (skip_special_ && tokenizer_->IsSpecial(id)) {
    return std::string();
  }
  held_ += bytes;
  const std::string_view all = held_;
  const size_t ready = all.size() - UnfinishedBytes(all);
  std::string text = ReplaceInvalidUtf8(all.substr(0, ready));
  held_.erase(0, ready);
  return text;
}

std::string IncrementalDecoder::Finish() { return ReplaceInvalidUtf8(std::exchange(held_, {})); }

}  // namespace cachalot
