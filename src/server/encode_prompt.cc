#include "server/encode_prompt.h"

#include <array>

namespace cachalot {

Result<std::vector<int32_t>> EncodePrompt(const Tokenizer& tokenizer, const Prompt& prompt) {
  std::vector<int32_t> ids;
  for (const PromptSegment& segment : prompt.segments()) {
    const std::array<Segment, 1> text = {{{segment.text, segment.trusted}}};
    CACHALOT_ASSIGN_OR_RETURN(const std::vector<int32_t> of_text, tokenizer.EncodeSegments(text));
    ids.insert(ids.end(), of_text.begin(), of_text.end());
    ids.insert(ids.end(), segment.tokens.begin(), segment.tokens.end());
  }
  return ids;
}

}  // namespace cachalot
