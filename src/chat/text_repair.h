// UTF-8 as the rest of the room relies on it: whole characters, each one valid.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cachalot {

// What stands at text[at]; at < text.size().
struct CharacterProbe {
  enum class Kind { kWhole, kCut, kInvalid };
  Kind kind;
  size_t length;  // of the character where whole, of what there is of it where cut, 1 where invalid
};
CharacterProbe ProbeCharacter(std::string_view text, size_t at);

bool IsValidUtf8(std::string_view text);
// UTF-8 of a code point; a surrogate or a value above U+10FFFF becomes U+FFFD.
void AppendCodePoint(std::string& out, char32_t code_point);

// Repairs a byte stream: a character cut by the end of a push waits for the next one, and each byte
// that can belong to no character becomes U+FFFD. Where the stream was split makes no difference.
class TextRepair {
 public:
  std::string Push(std::string_view bytes);
  // What waits at the end of the stream: nothing, or U+FFFD for each byte.
  std::string Finish();

 private:
  std::string cut_;
};

}  // namespace cachalot
