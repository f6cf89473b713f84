#include "chat/python_tokens.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "io/utf8.h"

namespace cachalot {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
// Bytes of non-ASCII letters count as part of a name; which of them Python would refuse does not
// matter here.
bool IsNameCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Python reads a file with universal newlines, inside of string literals too.
std::string WithPlainNewlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out += '\n';
    }
  }
  return out;
}

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& source)
      : text_(WithPlainNewlines(text)), source_(source) {}

  Result<std::vector<PythonToken>> ScanAll() {
    while (at_ < text_.size()) {
      CACHALOT_RETURN_IF_ERROR(ScanOne());
    }
    Add(PythonToken::Kind::kLineEnd, "");
    return std::move(tokens_);
  }

 private:
  using Kind = PythonToken::Kind;

  void Add(Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), brackets_ == 0 && token_start_ == line_start_});
  }

  Status ScanOne() {
    token_start_ = at_;
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      if (brackets_ == 0) {
        Add(Kind::kLineEnd, "");
      }
      line_start_ = at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
      at_ += 2;
    } else if (c == '"' || c == '\'') {
      return ScanString("");
    } else if (IsNameCharacter(c)) {
      return ScanWord();
    } else {
      if (c != ' ' && c != '\t' && c != '\f') {
        ScanSymbol(c);
      }
      ++at_;
    }
    return {};
  }

  void ScanSymbol(char c) {
    Add(Kind::kSymbol, std::string(1, c));
    if (c == '(' || c == '[' || c == '{') {
      ++brackets_;
    } else if ((c == ')' || c == ']' || c == '}') && brackets_ > 0) {
      --brackets_;
    }
  }

  Status ScanWord() {
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) {
      ++at_;
    }
    const std::string word = text_.substr(token_start_, at_ - token_start_);
    const bool may_be_prefix =
        word.size() <= 2 && word.find_first_not_of("rRuUbBfF") == std::string::npos;
    if (may_be_prefix && at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      return ScanString(word);
    }
    Add(IsDigit(word[0]) ? Kind::kOtherValue : Kind::kName, word);
    return {};
  }

  Status ScanString(const std::string& prefix) {
    const bool is_raw = prefix.find_first_of("rR") != std::string::npos;
    bool is_plain = prefix.find_first_of("bBfF") == std::string::npos;
    const char quote = text_[at_];
    const bool is_triple = text_.compare(at_, 3, std::string(3, quote)) == 0;
    const std::string close(is_triple ? 3 : 1, quote);
    at_ += close.size();
    std::string value;
    while (text_.compare(at_, close.size(), close) != 0) {
      if (at_ >= text_.size() || (!is_triple && text_[at_] == '\n')) {
        const auto start = text_.begin() + static_cast<std::ptrdiff_t>(token_start_);
        return MakeError(StatusCode::kInvalidArgument, "{}: string of line {} has no end", source_,
                         1 + std::count(text_.begin(), start, '\n'));
      }
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        value += text_[at_++];
      } else if (is_raw) {
        value.append(text_, at_, 2);  // a backslash keeps the quote from closing, and stays
        at_ += 2;
      } else {
        ++at_;
        is_plain = ScanEscape(value) && is_plain;
      }
    }
    at_ += close.size();
    Add(is_plain ? Kind::kString : Kind::kOtherValue, std::move(value));
    return {};
  }

  // What follows a backslash. False where the value cannot be told.
  bool ScanEscape(std::string& value) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char letter = text_[at_++];
    if (letter == '\n') {
      return true;
    }
    if (const size_t known = kLetters.find(letter); known != kLetters.npos) {
      value += kMeanings[known];
      return true;
    }
    if (letter >= '0' && letter <= '7') {
      --at_;
      size_t digits = 1;
      while (digits < 3 && at_ + digits < text_.size() && text_[at_ + digits] >= '0' &&
             text_[at_ + digits] <= '7') {
        ++digits;
      }
      return ScanCode(value, digits, 8);
    }
    switch (letter) {
      case 'x':
        return ScanCode(value, 2, 16);
      case 'u':
        return ScanCode(value, 4, 16);
      case 'U':
        return ScanCode(value, 8, 16);
      case 'N':
        return false;
      default:
        value += '\\';  // an unknown escape keeps its backslash
        value += letter;
        return true;
    }
  }

  bool ScanCode(std::string& value, size_t digits, int base) {
    std::uint32_t code = 0;
    const size_t available = std::min(digits, text_.size() - at_);
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + available, code, base);
    if (error != std::errc() || end != begin + digits) {
      return false;
    }
    at_ += digits;
    AppendCodePoint(value, static_cast<char32_t>(code));
    return true;
  }

  const std::string text_;
  const std::string& source_;
  std::vector<PythonToken> tokens_;
  size_t at_ = 0;
  size_t token_start_ = 0;
  size_t line_start_ = 0;
  int brackets_ = 0;
};

}  // namespace

Result<std::vector<PythonToken>> ReadPythonTokens(std::string_view text,
                                                  const std::string& source) {
  return Scanner(text, source).ScanAll();
}

}  // namespace cachalot
