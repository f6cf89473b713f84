// UTF-8 as Unicode defines it (table 3-7: no surrogates, no overlong forms, nothing above
// U+10FFFF). Text coming in is checked, bytes going out are made into text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cachalot {

enum class Utf8Kind {
  kCharacter,  // a whole character
  kInvalid,    // the longest start of a character that the next byte broke, or one byte that starts
               // nothing
  kIncomplete,  // the text ends inside a character: more bytes could still complete it
};

struct Utf8Step {
  Utf8Kind kind;
  size_t length;  // bytes, 1..4
};

// What stands at the front of `text`, which must not be empty.
Utf8Step NextUtf8(std::string_view text);

// The byte offset of the first fault, an unfinished last character included.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// Each invalid or incomplete step becomes one U+FFFD (the "maximal subpart" practice of Unicode and
// the web).
std::string ReplaceInvalidUtf8(std::string_view bytes);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace cachalot
