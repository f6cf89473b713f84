#include "server/custom_tool_input.h"

#include <charconv>

#include "chat/python_json.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr std::string_view kOpening = "{\"input\":\"";

}  // namespace

std::string CustomToolInput::Push(std::string_view arguments) {
  std::string text;
  for (const char byte : arguments) {
    PushByte(byte, text);
  }
  return text;
}

std::string CustomToolInput::Finish() {
  std::string text;
  EndSurrogate(text);
  if (state_ != State::kOther) {
    return text;
  }
  const Result<OrderedJson> object = ParsePythonJson(arguments_, "arguments");
  if (object && object->is_object()) {
    const auto named = object->find("input");
    const auto member = named == object->end() && object->size() == 1 ? object->begin() : named;
    if (member != object->end() && member->is_string()) {
      return member->get<std::string>();
    }
  }
  return std::move(arguments_);
}

void CustomToolInput::PushByte(char byte, std::string& text) {
  constexpr std::string_view kLetters = "bfnrt";
  constexpr std::string_view kMeanings = "\b\f\n\r\t";
  switch (state_) {
    case State::kOpening:
      arguments_ += byte;
      if (std::string_view(" \t\n\r").find(byte) != std::string_view::npos) {
        return;
      }
      opening_ += byte;
      if (opening_ == kOpening) {
        state_ = State::kText;
      } else if (!kOpening.starts_with(opening_)) {
        state_ = State::kOther;
      }
      return;
    case State::kText:
      if (byte == '\\') {
        state_ = State::kEscape;
        return;
      }
      EndSurrogate(text);
      if (byte == '"') {
        state_ = State::kRest;
      } else {
        text += byte;
      }
      return;
    case State::kEscape:
      if (byte == 'u') {
        state_ = State::kUnicode;
        return;
      }
      EndSurrogate(text);
      state_ = State::kText;
      if (const size_t known = kLetters.find(byte); known != kLetters.npos) {
        text += kMeanings[known];
      } else {
        text += byte;
      }
      return;
    case State::kUnicode:
      digits_ += byte;
      if (digits_.size() == 4) {
        EndUnicode(text);
        digits_.clear();
        state_ = State::kText;
      }
      return;
    case State::kRest:
      return;
    case State::kOther:
      arguments_ += byte;
      return;
  }
}

void CustomToolInput::EndUnicode(std::string& text) {
  uint32_t unit = 0;
  std::from_chars(digits_.data(), digits_.data() + digits_.size(), unit, 16);
  if (surrogate_ != 0 && unit >= 0xDC00 && unit < 0xE000) {
    AppendCodePoint(text, 0x10000 + ((surrogate_ - 0xD800) << 10) + (unit - 0xDC00));
    surrogate_ = 0;
    return;
  }
  EndSurrogate(text);
  if (unit >= 0xD800 && unit < 0xDC00) {
    surrogate_ = unit;
  } else {
    AppendCodePoint(text, unit);
  }
}

void CustomToolInput::EndSurrogate(std::string& text) {
  if (surrogate_ != 0) {
    text += kReplacementCharacter;
    surrogate_ = 0;
  }
}

}  // namespace cachalot
