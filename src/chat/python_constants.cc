#include "chat/python_constants.h"

#include <optional>
#include <utility>
#include <vector>

#include "chat/python_tokens.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr int kMaxParentheses = 64;
// What names may expand to in all: a = a + a doubles with every line.
constexpr size_t kMaxNameBytes = size_t{1} << 20;

class Reader {
 public:
  explicit Reader(std::vector<PythonToken> tokens) : tokens_(std::move(tokens)) {}

  PythonConstants ReadAll() {
    while (at_ < tokens_.size()) {
      if (tokens_[at_].at_line_start && tokens_[at_].kind == Kind::kName) {
        ReadStatement();
      }
      SkipLine();
    }
    return std::move(constants_);
  }

 private:
  using Kind = PythonToken::Kind;

  bool At(Kind kind) const { return at_ < tokens_.size() && tokens_[at_].kind == kind; }
  bool AtSymbol(char symbol) const { return At(Kind::kSymbol) && tokens_[at_].text[0] == symbol; }
  void SkipLine() {
    while (at_ < tokens_.size() && !At(Kind::kLineEnd)) {
      ++at_;
    }
    ++at_;
  }

  // NAME [: TYPE] = VALUE. The type is not understood; it ends at the first "=" of the line.
  void ReadStatement() {
    const std::string name = tokens_[at_++].text;
    const bool binds = AtSymbol('=') || AtSymbol(':') ||
                       (At(Kind::kSymbol) && at_ + 1 < tokens_.size() &&
                        tokens_[at_ + 1].kind == Kind::kSymbol && tokens_[at_ + 1].text == "=");
    if (!binds) {
      return;
    }
    if (AtSymbol(':')) {
      while (!At(Kind::kLineEnd) && !AtSymbol('=')) {
        ++at_;
      }
      if (At(Kind::kLineEnd)) {
        return;  // an annotation binds nothing
      }
    }
    std::optional<std::string> text;
    std::optional<std::map<std::string, std::string>> levels;
    if (AtSymbol('=')) {
      ++at_;
      if (AtSymbol('{')) {
        levels = ReadDictionary();
      } else {
        text = ReadSum(0);
      }
    }
    // Whatever it was before, the name now means this, or something that is no constant.
    constants_.strings.erase(name);
    constants_.dictionaries.erase(name);
    if (!At(Kind::kLineEnd) && !AtSymbol(';')) {
      return;
    }
    if (text) {
      constants_.strings[name] = std::move(*text);
    } else if (levels) {
      constants_.dictionaries[name] = std::move(*levels);
    }
  }

  std::optional<std::string> ReadSum(int parentheses) {
    std::optional<std::string> sum = ReadTerm(parentheses);
    while (sum && AtSymbol('+')) {
      ++at_;
      const std::optional<std::string> term = ReadTerm(parentheses);
      if (!term) {
        return std::nullopt;
      }
      *sum += *term;
    }
    return sum;
  }

  std::optional<std::string> ReadTerm(int parentheses) {
    if (At(Kind::kString)) {
      std::string text;
      while (At(Kind::kString)) {
        text += tokens_[at_++].text;
      }
      return At(Kind::kOtherValue) ? std::nullopt : std::optional(std::move(text));
    }
    if (At(Kind::kName)) {
      const auto known = constants_.strings.find(tokens_[at_++].text);
      if (known == constants_.strings.end() || known->second.size() > name_bytes_left_) {
        return std::nullopt;
      }
      name_bytes_left_ -= known->second.size();
      return known->second;
    }
    if (!AtSymbol('(') || parentheses == kMaxParentheses) {
      return std::nullopt;
    }
    ++at_;
    std::optional<std::string> inside = ReadSum(parentheses + 1);
    if (!inside || !AtSymbol(')')) {
      return std::nullopt;
    }
    ++at_;
    return inside;
  }

  std::optional<std::map<std::string, std::string>> ReadDictionary() {
    std::map<std::string, std::string> entries;
    ++at_;
    while (!AtSymbol('}')) {
      const std::optional<std::string> key = ReadSum(0);
      if (!key || !AtSymbol(':')) {
        return std::nullopt;
      }
      ++at_;
      std::optional<std::string> value = ReadSum(0);
      if (!value || !(AtSymbol(',') || AtSymbol('}'))) {
        return std::nullopt;
      }
      entries[*key] = std::move(*value);
      at_ += AtSymbol(',') ? 1 : 0;
    }
    ++at_;
    return entries;
  }

  std::vector<PythonToken> tokens_;
  PythonConstants constants_;
  size_t at_ = 0;
  size_t name_bytes_left_ = kMaxNameBytes;
};

}  // namespace

Result<PythonConstants> ReadPythonConstants(std::string_view text, const std::string& source) {
  if (FindInvalidUtf8(text)) {
    return MakeError(StatusCode::kInvalidArgument, "{}: not valid UTF-8", source);
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  CACHALOT_ASSIGN_OR_RETURN(std::vector<PythonToken> tokens, ReadPythonTokens(text, source));
  return Reader(std::move(tokens)).ReadAll();
}

}  // namespace cachalot
