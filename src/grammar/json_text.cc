#include "grammar/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cachalot {
namespace {

constexpr int kMaxIndent = 32;
constexpr int kIntegerDigits = 18;
constexpr int kFractionDigits = 17;
constexpr int kUnitDigits = 6;
// Exponents of two digits keep a number with 18 digits before the point finite.
constexpr int kExponentDigits = 2;

const ByteSet& Digit() {
  static const ByteSet bytes = ByteRange('0', '9');
  return bytes;
}
const ByteSet& HexDigit() {
  static const ByteSet bytes = Digit() | ByteRange('a', 'f') | ByteRange('A', 'F');
  return bytes;
}
const ByteSet& Continuation() {
  static const ByteSet bytes = ByteRange(0x80, 0xBF);
  return bytes;
}

// The letter after a backslash, or 0.
char ShortEscape(char32_t point) {
  switch (point) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

int64_t PowerOfTen(int exponent) {
  int64_t power = 1;
  for (int i = 0; i < exponent; ++i) {
    power *= 10;
  }
  return power;
}

double OfUnits(int64_t units) {
  return static_cast<double>(units) / static_cast<double>(JsonText::kUnitsPerOne);
}

}  // namespace

RuleId JsonText::Rule(std::optional<RuleId>& rule, const char* name, NodeId (JsonText::*piece)()) {
  if (!rule) {
    rule = builder_.DeclareRule(name);
    builder_.DefineRule(*rule, (this->*piece)());
  }
  return *rule;
}

NodeId JsonText::BlankRule() {
  const RuleId indent = builder_.DeclareRule("indent");
  builder_.DefineRule(indent, builder_.Bytes(BytesIn(" \t"), builder_.Return()));
  return builder_.Split(
      {builder_.Bytes(BytesIn(" "), builder_.Return()),
       builder_.Bytes(BytesIn("\n"), builder_.Repeat(indent, 0, kMaxIndent, builder_.Return())),
       builder_.Return()});
}

NodeId JsonText::Blank(NodeId next) {
  return builder_.Call(Rule(blank_, "blank", &JsonText::BlankRule), next);
}

NodeId JsonText::AnyOf(std::vector<std::string> texts, NodeId next) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts.empty() ? builder_.Nothing() : AnyOfSorted(texts, 0, texts.size(), 0, next);
}

NodeId JsonText::AnyOfSorted(const std::vector<std::string>& texts, size_t begin, size_t end,
                             size_t depth, NodeId next) {
  const std::string& first = texts[begin];
  const std::string& last = texts[end - 1];
  size_t common = depth;
  while (common < std::min(first.size(), last.size()) && first[common] == last[common]) {
    ++common;
  }
  std::vector<NodeId> ways;
  size_t i = begin;
  if (first.size() == common) {
    ways.push_back(next);
    ++i;
  }
  while (i < end) {
    size_t group_end = i;
    while (group_end < end && texts[group_end][common] == texts[i][common]) {
      ++group_end;
    }
    ways.push_back(group_end == i + 1
                       ? builder_.Literal(std::string_view(texts[i]).substr(common), next)
                       : AnyOfSorted(texts, i, group_end, common, next));
    i = group_end;
  }
  return builder_.Literal(std::string_view(first).substr(depth, common - depth),
                          builder_.Split(std::move(ways)));
}

// --- strings ------------------------------------------------------------------------------------

NodeId JsonText::NonAscii(NodeId next) {
  std::vector<NodeId> ways;
  for (const CodePointRange& range : AllCodePoints()) {
    ways.push_back(Utf8(std::max<char32_t>(range.first, 0x80), range.last, next));
  }
  return builder_.Split(std::move(ways));
}

// UTF-8 of the code points first to last, which has no surrogates.
NodeId JsonText::Utf8(char32_t first, char32_t last, NodeId next) {
  constexpr char32_t kEnds[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  std::vector<NodeId> ways;
  for (int length = 1; length <= 4; ++length) {
    const char32_t end = kEnds[length - 1];
    if (first <= last && first <= end) {
      ways.push_back(Utf8From(first, std::min(last, end), length, 0, next));
      first = end + 1;
    }
  }
  return builder_.Split(std::move(ways));
}

// What follows the first `position` bytes, in which first and last agree.
NodeId JsonText::Utf8From(char32_t first, char32_t last, int length, int position, NodeId next) {
  if (position == length) {
    return next;
  }
  const int shift = 6 * (length - 1 - position);
  const char32_t rest = (char32_t{1} << shift) - 1;
  const auto byte = [&](char32_t point) {
    if (position > 0) {
      return static_cast<uint8_t>(0x80 | (point >> shift & 0x3F));
    }
    constexpr uint8_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
    return static_cast<uint8_t>(kLeads[length - 1] | point >> shift);
  };
  if ((first & ~rest) == (last & ~rest)) {
    return builder_.Bytes(ByteRange(byte(first), byte(last)),
                          Utf8From(first, last, length, position + 1, next));
  }
  std::vector<NodeId> ways;
  char32_t whole_first = first & ~rest;
  char32_t whole_end = (last & ~rest) + rest + 1;
  if ((first & rest) != 0) {
    ways.push_back(Utf8From(first, first | rest, length, position, next));
    whole_first += rest + 1;
  }
  if ((last & rest) != rest) {
    ways.push_back(Utf8From(last & ~rest, last, length, position, next));
    whole_end -= rest + 1;
  }
  if (whole_first < whole_end) {
    NodeId tail = next;
    for (int i = position + 1; i < length; ++i) {
      tail = builder_.Bytes(Continuation(), tail);
    }
    ways.push_back(builder_.Bytes(ByteRange(byte(whole_first), byte(whole_end - 1)), tail));
  }
  return builder_.Split(std::move(ways));
}

// A character of a string, escaped or not; half a surrogate pair is none.
NodeId JsonText::Character(NodeId next) {
  const auto hex = [&](int count, NodeId then) {
    for (int i = 0; i < count; ++i) {
      then = builder_.Bytes(HexDigit(), then);
    }
    return then;
  };
  const ByteSet d = BytesIn("dD");
  const NodeId low =
      builder_.Literal("\\u", builder_.Bytes(d, builder_.Bytes(BytesIn("cdefCDEF"), hex(2, next))));
  const NodeId after_d = builder_.Split({builder_.Bytes(ByteRange('0', '7'), hex(2, next)),
                                         builder_.Bytes(BytesIn("89abAB"), hex(2, low))});
  const NodeId unicode =
      builder_.Split({builder_.Bytes(HexDigit() & ~d, hex(3, next)), builder_.Bytes(d, after_d)});
  const NodeId escape =
      builder_.Bytes(BytesIn("\\"), builder_.Split({builder_.Bytes(BytesIn("\"\\/bfnrt"), next),
                                                    builder_.Bytes(BytesIn("u"), unicode)}));
  return builder_.Split(
      {builder_.Bytes(ByteRange(0x20, 0x7F) & ~BytesIn("\"\\"), next), NonAscii(next), escape});
}

NodeId JsonText::CharacterRule() { return Character(builder_.Return()); }

NodeId JsonText::String(int64_t min, int64_t max, NodeId next) {
  const auto [rule, is_new] = strings_.try_emplace({min, max}, 0);
  if (is_new) {
    rule->second = builder_.DeclareRule("string");
    const NodeId end = builder_.Literal("\"", builder_.Return());
    NodeId begin;
    if (min == 0 && max == kUnbounded) {
      begin = builder_.OpenSplit();
      builder_.CloseSplit(begin, {Character(begin), end});
    } else {
      begin =
          builder_.Repeat(Rule(character_, "character", &JsonText::CharacterRule), min, max, end);
    }
    builder_.DefineRule(rule->second, builder_.Literal("\"", begin));
  }
  return builder_.Call(rule->second, next);
}

// One of `points`: as it is where it may be, else by the shortest escape.
NodeId JsonText::InString(const CodePoints& points, NodeId next) {
  ByteSet plain;
  ByteSet escaped;
  ByteSet control[2];  // last digits of \u000. and \u001.
  std::vector<NodeId> ways;
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const CodePointRange& range : points) {
    for (char32_t point = range.first; point <= std::min<char32_t>(range.last, 0x7F); ++point) {
      if (const char letter = ShortEscape(point); letter != 0) {
        escaped.set(static_cast<uint8_t>(letter));
      } else if (point < 0x20) {
        control[point / 16].set(static_cast<uint8_t>(kHex[point % 16]));
      } else {
        plain.set(point);
      }
    }
    if (range.last >= 0x80) {
      ways.push_back(Utf8(std::max<char32_t>(range.first, 0x80), range.last, next));
    }
  }
  ways.push_back(builder_.Bytes(plain, next));
  ways.push_back(builder_.Bytes(BytesIn("\\"), builder_.Bytes(escaped, next)));
  ways.push_back(builder_.Literal("\\u000", builder_.Bytes(control[0], next)));
  ways.push_back(builder_.Literal("\\u001", builder_.Bytes(control[1], next)));
  return builder_.Split(std::move(ways));
}

NodeId JsonText::String(const TextSet& texts, NodeId next) {
  const std::vector<TextSet::State>& states = texts.states();
  if (states.empty()) {
    return builder_.Nothing();
  }
  const NodeId end = builder_.Literal("\"", next);
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < states.size() && !builder_.is_full(); ++i) {
    nodes.push_back(builder_.OpenSplit());
  }
  for (size_t i = 0; i < states.size() && !builder_.is_full(); ++i) {
    std::map<int32_t, CodePoints> by_target;
    for (const TextSet::Edge& edge : states[i].edges) {
      by_target[edge.to].push_back(edge.range);
    }
    std::vector<NodeId> ways;
    for (const auto& [to, points] : by_target) {
      ways.push_back(InString(points, nodes[static_cast<size_t>(to)]));
    }
    if (states[i].accepts) {
      ways.push_back(end);
    }
    builder_.CloseSplit(nodes[i], std::move(ways));
  }
  return builder_.is_full() ? builder_.Nothing() : builder_.Literal("\"", nodes.front());
}

// --- numbers ------------------------------------------------------------------------------------

NodeId JsonText::UpToDigits(int count, NodeId next) {
  NodeId digits = next;
  for (int i = 0; i < count; ++i) {
    digits = builder_.Optional(builder_.Bytes(Digit(), digits), next);
  }
  return digits;
}

// Two numbers of as many digits; the first `position` have been written, and are those of min, or
// of max, where it says so.
NodeId JsonText::FixedDigits(const std::string& min, const std::string& max, size_t position,
                             bool at_min, bool at_max, NodeId next) {
  if (position == min.size()) {
    return next;
  }
  const auto first = static_cast<uint8_t>(at_min ? min[position] : '0');
  const auto last = static_cast<uint8_t>(at_max ? max[position] : '9');
  if (!at_min && !at_max) {
    return builder_.Bytes(Digit(), FixedDigits(min, max, position + 1, false, false, next));
  }
  std::vector<NodeId> ways;
  uint8_t inner_first = first;
  uint8_t inner_last = last;
  if (at_min) {
    ways.push_back(
        builder_.Bytes(ByteRange(first, first),
                       FixedDigits(min, max, position + 1, true, at_max && first == last, next)));
    ++inner_first;
  }
  if (at_max && !(at_min && first == last)) {
    ways.push_back(builder_.Bytes(ByteRange(last, last),
                                  FixedDigits(min, max, position + 1, false, true, next)));
    --inner_last;
  }
  if (inner_first <= inner_last) {
    ways.push_back(builder_.Bytes(ByteRange(inner_first, inner_last),
                                  FixedDigits(min, max, position + 1, false, false, next)));
  }
  return builder_.Split(std::move(ways));
}

// Integers from min to max, neither negative.
NodeId JsonText::Magnitude(int64_t min, int64_t max, NodeId next) {
  std::vector<NodeId> ways;
  for (int digits = 1; digits <= kIntegerDigits; ++digits) {
    const int64_t least = std::max(min, digits == 1 ? 0 : PowerOfTen(digits - 1));
    const int64_t most = std::min(max, PowerOfTen(digits) - 1);
    if (least <= most) {
      ways.push_back(FixedDigits(std::to_string(least), std::to_string(most), 0, true, true, next));
    }
  }
  return builder_.Split(std::move(ways));
}

NodeId JsonText::Integer(int64_t min, int64_t max, NodeId next) {
  const NodeId negative =
      min < 0 ? Magnitude(std::max<int64_t>(-max, 1), -min, next) : builder_.Nothing();
  return builder_.Split(
      {builder_.Literal("-", negative), Magnitude(std::max<int64_t>(min, 0), max, next)});
}

NodeId JsonText::NumberRule() {
  const NodeId end = builder_.Return();
  const NodeId digits = builder_.Bytes(Digit(), UpToDigits(kExponentDigits - 1, end));
  const NodeId exponent = builder_.Optional(
      builder_.Bytes(BytesIn("eE"),
                     builder_.Optional(builder_.Bytes(BytesIn("+-"), digits), digits)),
      end);
  const NodeId fraction = builder_.Optional(
      builder_.Literal(".", builder_.Bytes(Digit(), UpToDigits(kFractionDigits - 1, exponent))),
      exponent);
  const NodeId magnitude = builder_.Split(
      {builder_.Literal("0", fraction),
       builder_.Bytes(ByteRange('1', '9'), UpToDigits(kIntegerDigits - 1, fraction))});
  return builder_.Optional(builder_.Literal("-", magnitude), magnitude);
}

NodeId JsonText::Number(NodeId next) {
  return builder_.Call(Rule(number_, "number", &JsonText::NumberRule), next);
}

NodeId JsonText::FractionDigits(const std::string& min, const std::string& max, size_t position,
                                bool at_min, bool at_max, NodeId next) {
  if (position == min.size()) {
    return next;
  }
  if (!at_min && !at_max) {
    return UpToDigits(static_cast<int>(min.size() - position), next);
  }
  std::vector<NodeId> ways;
  // What is left out is zeros.
  if (position > 0 && (!at_min || min.find_first_not_of('0', position) == min.npos)) {
    ways.push_back(next);
  }
  for (char digit = at_min ? min[position] : '0'; digit <= (at_max ? max[position] : '9');
       ++digit) {
    ways.push_back(
        builder_.Bytes(BytesIn({&digit, 1}),
                       FractionDigits(min, max, position + 1, at_min && digit == min[position],
                                      at_max && digit == max[position], next)));
  }
  return builder_.Split(std::move(ways));
}

// A point and digits from min to max, in millionths; nothing where min is none.
NodeId JsonText::Fraction(int64_t min, int64_t max, NodeId next) {
  const auto digits = [](int64_t units) { return fmt::format("{:0{}}", units, kUnitDigits); };
  const NodeId written =
      builder_.Literal(".", FractionDigits(digits(min), digits(max), 0, true, true, next));
  return min == 0 ? builder_.Optional(written, next) : written;
}

NodeId JsonText::Units(int64_t min, int64_t max, NodeId next) {
  if (min > max) {
    return builder_.Nothing();
  }
  const int64_t first = min / kUnitsPerOne;
  const int64_t last = max / kUnitsPerOne;
  const int64_t first_rest = min % kUnitsPerOne;
  const int64_t last_rest = max % kUnitsPerOne;
  if (first == last) {
    return Magnitude(first, first, Fraction(first_rest, last_rest, next));
  }
  std::vector<NodeId> ways = {Magnitude(first, first, Fraction(first_rest, kUnitsPerOne - 1, next)),
                              Magnitude(last, last, Fraction(0, last_rest, next))};
  if (first + 1 < last) {
    ways.push_back(Magnitude(first + 1, last - 1, Fraction(0, kUnitsPerOne - 1, next)));
  }
  return builder_.Split(std::move(ways));
}

NodeId JsonText::NumberOfUnits(int64_t min, int64_t max, NodeId next) {
  const NodeId negative =
      min < 0 ? Units(std::max<int64_t>(-max, 1), -min, next) : builder_.Nothing();
  return builder_.Split(
      {builder_.Literal("-", negative), Units(std::max<int64_t>(min, 0), max, next)});
}

int64_t UnitsFrom(double bound, bool is_exclusive) {
  auto units =
      static_cast<int64_t>(std::floor(bound * static_cast<double>(JsonText::kUnitsPerOne))) - 1;
  while (is_exclusive ? OfUnits(units) <= bound : OfUnits(units) < bound) {
    ++units;
  }
  return units;
}

int64_t UnitsTo(double bound, bool is_exclusive) { return -UnitsFrom(-bound, is_exclusive); }

}  // namespace cachalot
