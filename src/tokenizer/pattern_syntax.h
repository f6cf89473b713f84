// Tokenizer files write their patterns for the Oniguruma engine; we match with PCRE2. This is the
// border: the part of the syntax that means the same in both is let through, `\s` is spelled out,
// the rest is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cachalot {

// The pattern for PCRE2 (UTF and UCP on). Let through: literals, `.`, `|`, classes without nesting,
// (?: (?! (?= (?i: and plain groups, quantifiers greedy, lazy or possessive, \p{..} of general
// categories, \d \s \r \n \t and escaped punctuation. The error says what is unsupported and at
// which byte.
Result<std::string> TranslatePattern(std::string_view pattern);

}  // namespace cachalot
