#include "tokenizer/incremental_decoder.h"

namespace cachalot {

Result<std::string> IncrementalDecoder::Push(int32_t id) {
  CACHALOT_ASSIGN_OR_RETURN(const std::string_view bytes, tokenizer_->TokenBytes(id));
  if (skip_special_ && tokenizer_->IsSpecial(id)) {
    return std::string();
  }
  return stream_.Push(bytes);
}

std::string IncrementalDecoder::Finish() { return stream_.Finish(); }

}  // namespace cachalot
