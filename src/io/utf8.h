// UTF-8 as Unicode defines it (table 3-7: no surrogates, no overlong forms, nothing above
// U+10FFFF). Text coming in is checked; bytes going out, in one piece or many, are made into text.
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

// The longest beginning of at most `max_bytes` that ends no character half-way.
std::string_view Utf8Prefix(std::string_view text, size_t max_bytes);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Each invalid or incomplete step becomes one U+FFFD (the "maximal subpart" practice of Unicode and
// the web).
std::string ReplaceInvalidUtf8(std::string_view bytes);

// Adds the UTF-8 of a code point; a surrogate or a value above U+10FFFF becomes U+FFFD.
void AppendCodePoint(std::string& text, char32_t code_point);

// Makes text of bytes that come in pieces. All that Push and Finish return, put together, is
// ReplaceInvalidUtf8 of all the bytes, wherever they were split.
class Utf8Stream {
 public:
  // The whole characters that there are now. At most three bytes, the beginning of a character, are
  // held back.
  std::string Push(std::string_view bytes);
  // What was held back, as U+FFFD; the stream is then as new.
  std::string Finish();

 private:
  std::string held_;
};

}  // namespace cachalot
