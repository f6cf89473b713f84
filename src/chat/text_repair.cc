#include "chat/text_repair.h"

#include <utility>

namespace cachalot {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

CharacterProbe ProbeCharacter(std::string_view text, size_t at) {
  using Kind = CharacterProbe::Kind;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const size_t available = text.size() - at;
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return {Kind::kWhole, 1};
  }
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0) {
    return {Kind::kInvalid, 1};
  }
  if (available == 1) {
    return {Kind::kCut, 1};
  }
  // The second byte alone decides over-long forms, surrogates and the upper limit (Unicode, table
  // 3-7).
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) {
    return {Kind::kInvalid, 1};
  }
  for (size_t i = 2; i < length; ++i) {
    if (i == available) {
      return {Kind::kCut, available};
    }
    if (!IsContinuation(byte(i))) {
      return {Kind::kInvalid, 1};
    }
  }
  return {Kind::kWhole, length};
}

bool IsValidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CharacterProbe probe = ProbeCharacter(text, at);
    if (probe.kind != CharacterProbe::Kind::kWhole) {
      return false;
    }
    at += probe.length;
  }
  return true;
}

void AppendCodePoint(std::string& out, char32_t code_point) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
    out += kReplacement;
  } else if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | (code_point >> 6));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | (code_point >> 12));
    out += static_cast<char>(0x80 | ((code_point >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code_point >> 18));
    out += static_cast<char>(0x80 | ((code_point >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code_point >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  }
}

std::string TextRepair::Push(std::string_view bytes) {
  std::string joined = std::move(cut_);
  cut_.clear();
  joined += bytes;
  std::string out;
  out.reserve(joined.size());
  for (size_t at = 0; at < joined.size();) {
    const CharacterProbe probe = ProbeCharacter(joined, at);
    if (probe.kind == CharacterProbe::Kind::kCut) {
      cut_ = joined.substr(at);
      break;
    }
    if (probe.kind == CharacterProbe::Kind::kWhole) {
      out.append(joined, at, probe.length);
    } else {
      out += kReplacement;
    }
    at += probe.length;
  }
  return out;
}

std::string TextRepair::Finish() {
  std::string out;
  for (size_t i = 0; i < cut_.size(); ++i) {
    out += kReplacement;
  }
  cut_.clear();
  return out;
}

}  // namespace cachalot
