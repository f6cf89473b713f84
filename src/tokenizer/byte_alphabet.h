// The alphabet in which byte-level vocabularies write bytes (first seen with GPT-2): each of the
// 256 bytes is one printable character. Printable Latin-1 stands for itself; the other 68 bytes, in
// order, are U+0100, U+0101, ….
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cachalot {

// The bytes that `written` stands for; nothing if it holds a character outside the alphabet.
std::optional<std::string> BytesOfWritten(std::string_view written);

// The inverse: bytes as a vocabulary writes them, in UTF-8.
std::string WriteBytes(std::string_view bytes);

}  // namespace cachalot
