#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr int kNumCharacters = 256 + 68;  // highest code point of the alphabet, plus one

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint16_t, 256> character{};       // byte → code point
  std::array<int16_t, kNumCharacters> byte{};  // code point → byte, -1 where none
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  uint16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const uint16_t character = IsPrintable(byte) ? static_cast<uint16_t>(byte) : next++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::optional<std::string> BytesOfWritten(std::string_view written) {
  std::string bytes;
  bytes.reserve(written.size());
  for (size_t i = 0; i < written.size();) {
    // All code points of the alphabet take one or two bytes of UTF-8.
    const auto lead = static_cast<uint8_t>(written[i]);
    int character = lead;
    size_t length = 1;
    if (lead >= 0x80) {
      if ((lead & 0xE0) != 0xC0 || i + 1 == written.size()) {
        return std::nullopt;
      }
      character = (lead & 0x1F) << 6 | (static_cast<uint8_t>(written[i + 1]) & 0x3F);
      length = 2;
    }
    if (character >= kNumCharacters || kAlphabet.byte[character] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.byte[character]));
    i += length;
  }
  return bytes;
}

std::string WriteBytes(std::string_view bytes) {
  std::string written;
  for (const char c : bytes) {
    AppendCodePoint(written, kAlphabet.character[static_cast<uint8_t>(c)]);
  }
  return written;
}

}  // namespace cachalot
