// From a rendered prompt to token ids.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "chat/prompt.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {

Result<std::vector<int32_t>> EncodePrompt(const Tokenizer& tokenizer, const Prompt& prompt);

}  // namespace cachalot
