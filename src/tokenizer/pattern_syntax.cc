#include "tokenizer/pattern_syntax.h"

#include <cstdint>

namespace cachalot {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool IsAsciiAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    while (at_ < pattern_.size()) {
      CACHALOT_RETURN_IF_ERROR(in_class_ ? StepInClass() : StepOutside());
    }
    if (in_class_) {
      return MakeError(StatusCode::kInvalidArgument, "class without ']'");
    }
    return std::move(out_);
  }

 private:
  std::string_view Rest() const { return pattern_.substr(at_); }

  void Copy(size_t length) {
    out_.append(pattern_.substr(at_, length));
    at_ += length;
  }

  tl::unexpected<Error> Unsupported(std::string_view what) const {
    return MakeError(StatusCode::kUnsupported, "{} at byte {} is not supported", what, at_);
  }

  Status StepOutside() {
    switch (pattern_[at_]) {
      case '\\':
        return Escape();
      case '[':
        in_class_ = true;
        Copy(Rest().starts_with("[^") ? 2 : 1);
        if (Rest().starts_with(']')) {
          return Unsupported("']' as the first of a class");
        }
        return {};
      case '^':
      case '$':
        return Unsupported("an anchor");
      case '(':
        return Group();
      case '{':
        return Repeat();
      default:
        Copy(1);
        return {};
    }
  }

  Status StepInClass() {
    if (Rest().starts_with("&&") || pattern_[at_] == '[') {
      return Unsupported("a class in a class");
    }
    if (pattern_[at_] == '\\') {
      return Escape();
    }
    in_class_ = pattern_[at_] != ']';
    Copy(1);
    return {};
  }

  Status Group() {
    if (Rest().starts_with("(*")) {
      return Unsupported("'(*'");
    }
    if (!Rest().starts_with("(?")) {
      Copy(1);
      return {};
    }
    for (const std::string_view known : {"(?:", "(?!", "(?=", "(?i:"}) {
      if (Rest().starts_with(known)) {
        Copy(known.size());
        return {};
      }
    }
    return Unsupported("this kind of group");
  }

  // {m} {m,} {m,n}: what else may follow or stand in the braces differs between the engines.
  Status Repeat() {
    const std::string_view rest = Rest();
    const size_t close = rest.find('}');
    const std::string_view inside = rest.substr(1, close == rest.npos ? 0 : close - 1);
    const size_t comma = inside.find(',');
    const std::string_view least = inside.substr(0, comma);
    const std::string_view most = comma == inside.npos ? "" : inside.substr(comma + 1);
    const bool plain = !least.empty() && least.find_first_not_of(kDigits) == least.npos &&
                       most.find_first_not_of(kDigits) == most.npos;
    if (!plain) {
      return Unsupported("'{' other than {m}, {m,}, {m,n}");
    }
    Copy(close + 1);
    if (at_ < pattern_.size() &&
        std::string_view("?+*{").find(pattern_[at_]) != std::string::npos) {
      return Unsupported("a quantifier after '}'");
    }
    return {};
  }

  Status Escape() {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (c == 'p' || c == 'P') {
      return Category();
    }
    if (c == 's' || c == 'S') {
      // PCRE2's own \s has U+180E as well, which is no white space since Unicode 6.3.
      out_.append(c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
      at_ += 2;
      return {};
    }
    const bool is_punctuation = c > ' ' && c < 0x7F && !IsAsciiAlphanumeric(c);
    if (!is_punctuation && std::string_view("drnt").find(c) == std::string::npos) {
      return Unsupported("this escape");
    }
    Copy(2);
    return {};
  }

  // \p{L}, \p{Lu}: names of scripts and the like mean different sets in the two engines.
  Status Category() {
    const std::string_view rest = Rest().substr(2);
    const size_t close = rest.find('}');
    const std::string_view name =
        rest.starts_with('{') && close != rest.npos ? rest.substr(1, close - 1) : "";
    const bool is_category =
        (name.size() == 1 || (name.size() == 2 && name[1] >= 'a' && name[1] <= 'z')) &&
        std::string_view("CLMNPSZ").find(name[0]) != std::string::npos;
    if (!is_category) {
      return Unsupported("a property other than a general category");
    }
    Copy(2 + close + 1);
    return {};
  }

  std::string_view pattern_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

Result<std::string> TranslatePattern(std::string_view pattern) { return Translator(pattern).Run(); }

}  // namespace cachalot
