#include "io/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace cachalot {
namespace {

// Bytes from the front that are plain ASCII, eight at a time: most text is.
size_t AsciiPrefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t length = 0;
  while (length + sizeof(uint64_t) <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + length, sizeof(word));
    if ((word & kHighBits) != 0) {
      break;
    }
    length += sizeof(word);
  }
  while (length < text.size() && static_cast<uint8_t>(text[length]) < 0x80) {
    ++length;
  }
  return length;
}

// How many bytes at the end could still become a character.
size_t UnfinishedBytes(std::string_view bytes) {
  for (size_t length = 1; length <= std::min<size_t>(3, bytes.size()); ++length) {
    const std::string_view tail = bytes.substr(bytes.size() - length);
    // The first byte of `tail` then starts a character, and so a step of its own, whatever stands
    // before it.
    if (NextUtf8(tail).kind == Utf8Kind::kIncomplete) {
      return length;
    }
  }
  return 0;
}

}  // namespace

Utf8Step NextUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    return {Utf8Kind::kCharacter, 1};
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return {Utf8Kind::kInvalid, 1};
  }
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range is what excludes overlong forms, surrogates and values above U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      return {Utf8Kind::kIncomplete, i};
    }
    if (byte(i) < low || byte(i) > high) {
      return {Utf8Kind::kInvalid, i};
    }
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kCharacter, length};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t at = 0;
  while (true) {
    at += AsciiPrefix(text.substr(at));
    if (at == text.size()) {
      return std::nullopt;
    }
    const Utf8Step step = NextUtf8(text.substr(at));
    if (step.kind != Utf8Kind::kCharacter) {
      return at;
    }
    at += step.length;
  }
}

std::string_view Utf8Prefix(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return text;
  }
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = FindInvalidUtf8(bytes).value_or(bytes.size());
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (!bytes.empty()) {
      text.append(kReplacementCharacter);
      bytes.remove_prefix(NextUtf8(bytes).length);
    }
  }
  return text;
}

void AppendCodePoint(std::string& text, char32_t code_point) {
  const auto append = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto append_continuation = [&](int shift) { append(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
    text.append(kReplacementCharacter);
  } else if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0 | code_point >> 6);
    append_continuation(0);
  } else if (code_point < 0x10000) {
    append(0xE0 | code_point >> 12);
    append_continuation(6);
    append_continuation(0);
  } else {
    append(0xF0 | code_point >> 18);
    append_continuation(12);
    append_continuation(6);
    append_continuation(0);
  }
}

std::string Utf8Stream::Push(std::string_view bytes) {
  held_ += bytes;
  const std::string_view all = held_;
  const size_t ready = all.size() - UnfinishedBytes(all);
  std::string text = ReplaceInvalidUtf8(all.substr(0, ready));
  held_.erase(0, ready);
  return text;
}

std::string Utf8Stream::Finish() { return ReplaceInvalidUtf8(std::exchange(held_, {})); }

}  // namespace cachalot
