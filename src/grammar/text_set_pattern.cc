// ECMA-262 patterns: text → tree → nondeterministic automaton → TextSet.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "grammar/grammar.h"
#include "grammar/text_set.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr size_t kMaxPatternBytes = 20'000;
constexpr int kMaxGroups = 100;  // one in another
constexpr size_t kMaxPatternStates = 20'000;
constexpr int64_t kMaxWork = 5'000'000;  // pairs of a state and a stretch of code points

struct PatternNode {
  enum class Kind { kSet, kSequence, kChoice, kRepeat } kind;
  CodePoints set;
  std::vector<PatternNode> children;  // of a kRepeat: one
  int64_t min = 0;
  int64_t max = 0;
};

const CodePoints& Digits() {
  static const CodePoints points = {{'0', '9'}};
  return points;
}
const CodePoints& WordCharacters() {
  static const CodePoints points = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return points;
}
const CodePoints& WhiteSpace() {
  static const CodePoints points = {
      {0x09, 0x0D},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return points;
}
const CodePoints& LineEnds() {
  static const CodePoints points = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return points;
}

// An alternative that is in no group, and which ends of the text it reaches.
struct AnchoredChoice {
  PatternNode node;
  bool from_begin = false;
  bool to_end = false;
};

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text), rest_(text) {}

  Result<std::vector<AnchoredChoice>> Parse() {
    std::vector<AnchoredChoice> choices;
    do {
      AnchoredChoice& choice = choices.emplace_back();
      choice.from_begin = Take('^');
      CACHALOT_ASSIGN_OR_RETURN(choice.node, ParseSequence(0));
      choice.to_end = Take('$');
      if (!rest_.empty() && rest_[0] != '|') {
        return Fail(rest_[0] == ')' ? "a parenthesis that closes nothing"
                                    : "expected an anchor only at an end of the pattern");
      }
    } while (Take('|'));
    return choices;
  }

 private:
  tl::unexpected<Error> Fail(std::string_view what,
                             StatusCode code = StatusCode::kUnsupported) const {
    return MakeError(code, "at byte {}: {}", text_.size() - rest_.size() + 1, what);
  }

  bool Take(char wanted) {
    if (rest_.empty() || rest_[0] != wanted) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }

  static PatternNode SetNode(CodePoints points) {
    PatternNode node = {PatternNode::Kind::kSet};
    node.set = std::move(points);
    return node;
  }

  Result<PatternNode> ParseSequence(int depth) {
    PatternNode sequence = {PatternNode::Kind::kSequence};
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')' && rest_[0] != '$') {
      CACHALOT_ASSIGN_OR_RETURN(PatternNode atom, ParseAtom(depth));
      CACHALOT_ASSIGN_OR_RETURN(atom, ParseQuantifier(std::move(atom)));
      sequence.children.push_back(std::move(atom));
    }
    return sequence;
  }

  Result<PatternNode> ParseAtom(int depth) {
    if (Take('(')) {
      return ParseGroup(depth + 1);
    }
    if (Take('[')) {
      CACHALOT_ASSIGN_OR_RETURN(CodePoints points, ParseClass());
      return SetNode(std::move(points));
    }
    if (Take('.')) {
      return SetNode(Complement(LineEnds()));
    }
    if (Take('\\')) {
      CACHALOT_ASSIGN_OR_RETURN(CodePoints points, ParseEscape(false));
      return SetNode(std::move(points));
    }
    if (rest_[0] == '*' || rest_[0] == '+' || rest_[0] == '?') {
      return Fail("a quantifier with nothing before it", StatusCode::kInvalidArgument);
    }
    if (rest_[0] == '^') {
      return Fail("expected an anchor only at an end of the pattern");
    }
    const char32_t point = TakeCodePoint(rest_);
    return SetNode({{point, point}});
  }

  Result<PatternNode> ParseGroup(int depth) {
    if (depth > kMaxGroups) {
      return Fail("too many groups in one another");
    }
    if (Take('?') && !Take(':')) {
      const size_t name_end = rest_.find('>');
      if (rest_.size() < 2 || rest_[0] != '<' || rest_[1] == '=' || rest_[1] == '!' ||
          name_end == rest_.npos) {
        return Fail("assertions and flags are not understood");
      }
      rest_.remove_prefix(name_end + 1);
    }
    PatternNode choice = {PatternNode::Kind::kChoice};
    do {
      CACHALOT_ASSIGN_OR_RETURN(PatternNode sequence, ParseSequence(depth));
      choice.children.push_back(std::move(sequence));
    } while (Take('|'));
    if (!Take(')')) {
      return rest_.empty() ? Fail("a group without an end", StatusCode::kInvalidArgument)
                           : Fail("expected an anchor only at an end of the pattern");
    }
    return choice;
  }

  std::optional<int64_t> TakeNumber() {
    if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') {
      return std::nullopt;
    }
    int64_t number = 0;
    while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') {
      number = std::min<int64_t>(number * 10 + (rest_[0] - '0'), int64_t{1} << 32);
      rest_.remove_prefix(1);
    }
    return number;
  }

  Result<PatternNode> ParseQuantifier(PatternNode atom) {
    int64_t min = 0;
    int64_t max = kUnbounded;
    if (Take('+')) {
      min = 1;
    } else if (Take('?')) {
      max = 1;
    } else if (!Take('*')) {
      const std::string_view before = rest_;
      if (!Take('{')) {
        return atom;
      }
      const auto first = TakeNumber();
      min = first.value_or(0);
      max = Take(',') ? TakeNumber().value_or(kUnbounded) : min;
      if (!first || !Take('}')) {
        rest_ = before;  // an ordinary brace, which the next atom is
        return atom;
      }
      if (min > max) {
        return Fail("a quantifier whose numbers are out of order", StatusCode::kInvalidArgument);
      }
    }
    Take('?');  // how much is taken first does not change what matches
    if (!rest_.empty() && (rest_[0] == '*' || rest_[0] == '+' || rest_[0] == '?')) {
      return Fail("a quantifier after a quantifier", StatusCode::kInvalidArgument);
    }
    PatternNode repeat = {PatternNode::Kind::kRepeat};
    repeat.min = min;
    repeat.max = max;
    repeat.children.push_back(std::move(atom));
    return repeat;
  }

  Result<CodePoints> ParseClass() {
    const bool is_negated = Take('^');
    CodePoints points;
    if (!rest_.empty() && rest_[0] == ']') {
      return Fail("an empty class");
    }
    while (!Take(']')) {
      if (rest_.empty()) {
        return Fail("a class without an end", StatusCode::kInvalidArgument);
      }
      CACHALOT_ASSIGN_OR_RETURN(const CodePoints first, ParseClassAtom());
      if (rest_.size() >= 2 && rest_[0] == '-' && rest_[1] != ']') {
        Take('-');
        CACHALOT_ASSIGN_OR_RETURN(const CodePoints last, ParseClassAtom());
        const auto is_one = [](const CodePoints& set) {
          return set.size() == 1 && set[0].first == set[0].last;
        };
        if (!is_one(first) || !is_one(last) || first[0].first > last[0].first) {
          return Fail("a range of a class that is out of order", StatusCode::kInvalidArgument);
        }
        points.push_back({first[0].first, last[0].first});
      } else {
        points.insert(points.end(), first.begin(), first.end());
      }
    }
    points = MakeCodePoints(std::move(points));
    return is_negated ? Complement(points) : points;
  }

  Result<CodePoints> ParseClassAtom() {
    if (Take('\\')) {
      return ParseEscape(true);
    }
    if (rest_.empty()) {
      return Fail("a class without an end", StatusCode::kInvalidArgument);
    }
    const char32_t point = TakeCodePoint(rest_);
    return CodePoints{{point, point}};
  }

  std::optional<char32_t> TakeHex(size_t digits) {
    if (rest_.size() < digits) {
      return std::nullopt;
    }
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = rest_[i];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) {
        return std::nullopt;
      }
      value = value * 16 + static_cast<char32_t>(digit);
    }
    rest_.remove_prefix(digits);
    return value;
  }

  // After \u.
  std::optional<char32_t> TakeUnicodeEscape() {
    if (Take('{')) {
      const size_t end = rest_.find('}');
      const auto point = end == rest_.npos || end == 0 || end > 6 ? std::nullopt : TakeHex(end);
      return point && Take('}') && *point <= 0x10FFFF ? point : std::nullopt;
    }
    auto point = TakeHex(4);
    if (point && *point >= 0xD800 && *point < 0xDC00 && rest_.starts_with("\\u")) {
      rest_.remove_prefix(2);
      const auto low = TakeHex(4);
      if (!low || *low < 0xDC00 || *low > 0xDFFF) {
        return std::nullopt;
      }
      point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
    }
    return point;
  }

  Result<CodePoints> ParseEscape(bool in_class) {
    if (rest_.empty()) {
      return Fail("a backslash with nothing after it", StatusCode::kInvalidArgument);
    }
    const char c = rest_[0];
    const auto one = [](char32_t point) { return CodePoints{{point, point}}; };
    if (static_cast<unsigned char>(c) >= 0x80) {
      return one(TakeCodePoint(rest_));
    }
    rest_.remove_prefix(1);
    switch (c) {
      case 'd':
        return Digits();
      case 'D':
        return Complement(Digits());
      case 'w':
        return WordCharacters();
      case 'W':
        return Complement(WordCharacters());
      case 's':
        return WhiteSpace();
      case 'S':
        return Complement(WhiteSpace());
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case 'r':
        return one('\r');
      case 'b':
        if (in_class) {
          return one('\b');
        }
        break;
      case '0':
        if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') {
          return one(0);
        }
        break;
      case 'c':
        if (!rest_.empty() &&
            ((rest_[0] >= 'a' && rest_[0] <= 'z') || (rest_[0] >= 'A' && rest_[0] <= 'Z'))) {
          const auto letter = static_cast<char32_t>(rest_[0]);
          rest_.remove_prefix(1);
          return one(letter % 32);
        }
        break;
      case 'x':
      case 'u': {
        const auto point = c == 'x' ? TakeHex(2) : TakeUnicodeEscape();
        if (!point || (*point >= 0xD800 && *point <= 0xDFFF)) {
          return Fail("an escape of no character", StatusCode::kInvalidArgument);
        }
        return one(*point);
      }
      default:
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) {
          return one(static_cast<char32_t>(c));
        }
    }
    return Fail("an escape that is not understood");
  }

  std::string_view text_;
  std::string_view rest_;
};

// Nondeterministic; built from the end to the beginning.
struct PatternAutomaton {
  struct State {
    CodePoints set;             // of a state that reads
    std::vector<int32_t> next;  // one after a set, else any number
    bool reads = false;
  };
  static constexpr int32_t kEnd = 0;   // nothing may follow
  static constexpr int32_t kRest = 1;  // anything may
  std::vector<State> states = std::vector<State>(2);
  bool is_full = false;

  int32_t Add(State state) {
    if (states.size() >= kMaxPatternStates) {
      is_full = true;
      return kEnd;
    }
    states.push_back(std::move(state));
    return static_cast<int32_t>(states.size() - 1);
  }

  int32_t Append(const PatternNode& node, int32_t next) {
    switch (node.kind) {
      case PatternNode::Kind::kSet:
        return Add({node.set, {next}, true});
      case PatternNode::Kind::kSequence:
        for (size_t i = node.children.size(); i-- > 0 && !is_full;) {
          next = Append(node.children[i], next);
        }
        return next;
      case PatternNode::Kind::kChoice: {
        State choice;
        for (const PatternNode& child : node.children) {
          choice.next.push_back(Append(child, next));
        }
        return Add(std::move(choice));
      }
      case PatternNode::Kind::kRepeat:
        return AppendRepeat(node, next);
    }
    return next;
  }

  int32_t AppendRepeat(const PatternNode& node, int32_t next) {
    const PatternNode& body = node.children.front();
    if (node.max == kUnbounded) {
      const int32_t loop = Add({});
      const int32_t begin = Append(body, loop);
      states[static_cast<size_t>(loop)].next = {begin, next};
      next = loop;
    } else {
      const int32_t end = next;
      for (int64_t i = node.min; i < node.max && !is_full; ++i) {
        const int32_t begin = Append(body, next);
        next = Add({{}, {begin, end}, false});
      }
    }
    for (int64_t i = 0; i < node.min && !is_full; ++i) {
      const size_t before = states.size();
      next = Append(body, next);
      if (states.size() == before) {
        break;  // an empty body, as often as it may come
      }
    }
    return next;
  }
};

class SubsetConstruction {
 public:
  explicit SubsetConstruction(const PatternAutomaton& automaton) : automaton_(automaton) {
    seen_.resize(automaton.states.size(), 0);
  }

  Result<std::vector<TextSet::State>> Run(const std::vector<int32_t>& begin) {
    std::vector<TextSet::State> states;
    IdOf(begin);
    for (size_t i = 0; i < sets_.size(); ++i) {
      TextSet::State state;
      const std::vector<int32_t> set = sets_[i];
      state.accepts = std::any_of(set.begin(), set.end(), [](int32_t member) {
        return member == PatternAutomaton::kEnd || member == PatternAutomaton::kRest;
      });
      AppendEdges(set, state);
      states.push_back(std::move(state));
      if (sets_.size() > TextSet::kMaxStates || work_ > kMaxWork) {
        return MakeError(StatusCode::kUnsupported, "too complex: its automaton would be too large");
      }
    }
    return states;
  }

 private:
  // What is reached from `from` without reading, as a state; `from` may have anything twice.
  int32_t IdOf(const std::vector<int32_t>& from) {
    ++round_;
    std::vector<int32_t> set;
    std::vector<int32_t> todo = from;
    while (!todo.empty()) {
      const auto member = static_cast<size_t>(todo.back());
      todo.pop_back();
      if (std::exchange(seen_[member], round_) == round_) {
        continue;
      }
      ++work_;
      const PatternAutomaton::State& state = automaton_.states[member];
      if (state.reads || member <= 1) {
        set.push_back(static_cast<int32_t>(member));
      } else {
        todo.insert(todo.end(), state.next.begin(), state.next.end());
      }
    }
    if (seen_[PatternAutomaton::kRest] == round_) {
      set = {PatternAutomaton::kRest};  // whatever else may be, all is accepted
    }
    std::sort(set.begin(), set.end());
    const auto [id, is_new] = ids_.try_emplace(set, static_cast<int32_t>(sets_.size()));
    if (is_new) {
      sets_.push_back(std::move(set));
    }
    return id->second;
  }

  void AppendEdges(const std::vector<int32_t>& set, TextSet::State& state) {
    struct Border {
      char32_t at;
      int32_t to;
      int change;
    };
    std::vector<Border> borders;
    const auto append = [&](const CodePoints& points, int32_t to) {
      for (const CodePointRange& range : points) {
        borders.push_back({range.first, to, 1});
        borders.push_back({range.last + 1, to, -1});
      }
    };
    for (const int32_t member : set) {
      const PatternAutomaton::State& from = automaton_.states[static_cast<size_t>(member)];
      if (member == PatternAutomaton::kRest) {
        append(AllCodePoints(), member);
      } else if (from.reads) {
        append(from.set, from.next.front());
      }
    }
    std::sort(borders.begin(), borders.end(),
              [](const Border& a, const Border& b) { return a.at < b.at; });
    std::map<int32_t, int> open;
    for (size_t i = 0; i < borders.size() && work_ <= kMaxWork;) {
      const char32_t first = borders[i].at;
      for (; i < borders.size() && borders[i].at == first; ++i) {
        if ((open[borders[i].to] += borders[i].change) == 0) {
          open.erase(borders[i].to);
        }
      }
      if (open.empty()) {
        continue;
      }
      std::vector<int32_t> targets;
      for (const auto& [to, count] : open) {
        targets.push_back(to);
      }
      work_ += static_cast<int64_t>(targets.size());
      state.edges.push_back({{first, borders[i].at - 1}, IdOf(targets)});
    }
  }

  const PatternAutomaton& automaton_;
  std::map<std::vector<int32_t>, int32_t> ids_;
  std::vector<std::vector<int32_t>> sets_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  int64_t work_ = 0;
};

}  // namespace

Result<TextSet> TextSet::OfPattern(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return MakeError(StatusCode::kUnsupported, "{} bytes, expected at most {}", pattern.size(),
                     kMaxPatternBytes);
  }
  if (const auto fault = FindInvalidUtf8(pattern)) {
    return MakeError(StatusCode::kInvalidArgument, "at byte {}: no UTF-8", *fault + 1);
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::vector<AnchoredChoice> choices,
                            PatternParser(pattern).Parse());
  PatternAutomaton automaton;
  std::vector<int32_t> begin;
  for (const AnchoredChoice& choice : choices) {
    int32_t first = automaton.Append(
        choice.node, choice.to_end ? PatternAutomaton::kEnd : PatternAutomaton::kRest);
    if (!choice.from_begin) {
      const int32_t loop = automaton.Add({});
      const int32_t skip = automaton.Add({AllCodePoints(), {loop}, true});
      automaton.states[static_cast<size_t>(loop)].next = {skip, first};
      first = loop;
    }
    begin.push_back(first);
  }
  if (automaton.is_full) {
    return MakeError(StatusCode::kUnsupported, "too complex: its automaton would be too large");
  }
  CACHALOT_ASSIGN_OR_RETURN(std::vector<State> states, SubsetConstruction(automaton).Run(begin));
  return TextSet(std::move(states));
}

}  // namespace cachalot
