// Sets of Unicode texts as deterministic automata over code points: what patterns, formats and
// bounds of length leave of all strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cachalot {

struct CodePointRange {
  char32_t first;
  char32_t last;

  bool operator==(const CodePointRange&) const = default;
};
// In rising order, none beside or over another, no surrogates.
using CodePoints = std::vector<CodePointRange>;

// Of any ranges, in any order.
CodePoints MakeCodePoints(CodePoints ranges);
CodePoints Complement(const CodePoints& points);
CodePoints AllCodePoints();

class TextSet {
 public:
  static constexpr size_t kMaxStates = 20'000;
  struct Edge {
    CodePointRange range;
    int32_t to;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges;  // in rising order
  };

  // Texts with something in them that matches an ECMA-262 pattern (with the u flag). Understood:
  // literals, dot, classes, \d \w \s and their opposites, escapes of characters, groups,
  // alternation, quantifiers; ^ and $ at the ends of alternatives that are in no group. Errors name
  // the byte: kInvalidArgument; kUnsupported for other constructs and beyond the bounds.
  static Result<TextSet> OfPattern(std::string_view pattern);
  // Texts of min to max code points. max may be kUnbounded (grammar.h); error beyond kMaxStates.
  static Result<TextSet> OfLength(int64_t min, int64_t max);
  // All texts but these, which are UTF-8.
  static Result<TextSet> AllBut(const std::vector<std::string>& texts);
  static Result<TextSet> Intersection(const TextSet& a, const TextSet& b);

  bool empty() const { return states_.empty(); }
  // UTF-8.
  bool Contains(std::string_view text) const;
  // The first is where texts begin. From each some text is accepted.
  const std::vector<State>& states() const { return states_; }

 private:
  // Drops what leads nowhere.
  explicit TextSet(std::vector<State> states);

  std::vector<State> states_;
};

// The code point at the front of valid UTF-8, which it is taken off.
char32_t TakeCodePoint(std::string_view& text);

}  // namespace cachalot
