// The pieces of JSON texts as grammar: white space, literals, strings, numbers, lists of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/text_set.h"
#include "io/json.h"

namespace cachalot {

// Each piece is built before what follows it, `next`, as with GrammarBuilder.
class JsonText {
 public:
  // Integers have so many digits at most.
  static constexpr int64_t kMaxInteger = 999'999'999'999'999'999;
  // Numbers within bounds have six digits after the point, and this size.
  static constexpr int64_t kUnitsPerOne = 1'000'000;
  static constexpr int64_t kMaxUnits = 1'000'000'000 * kUnitsPerOne;

  explicit JsonText(GrammarBuilder& builder) : builder_(builder) {}

  // Nothing, a space, or a newline and up to 32 spaces and tabs.
  NodeId Blank(NodeId next);
  // Any of these texts.
  NodeId AnyOf(std::vector<std::string> texts, NodeId next);
  // A string of min to max code points.
  NodeId String(int64_t min, int64_t max, NodeId next);
  // A string whose text is one of the set.
  NodeId String(const TextSet& texts, NodeId next);
  // From min to max, which are within kMaxInteger.
  NodeId Integer(int64_t min, int64_t max, NodeId next);
  NodeId Number(NodeId next);
  // From min to max units of a millionth, which are within kMaxUnits.
  NodeId NumberOfUnits(int64_t min, int64_t max, NodeId next);

 private:
  RuleId Rule(std::optional<RuleId>& rule, const char* name, NodeId (JsonText::*piece)());
  NodeId BlankRule();
  NodeId CharacterRule();
  NodeId NumberRule();
  NodeId Character(NodeId next);
  NodeId NonAscii(NodeId next);
  NodeId Utf8(char32_t first, char32_t last, NodeId next);
  NodeId Utf8From(char32_t first, char32_t last, int length, int position, NodeId next);
  NodeId InString(const CodePoints& points, NodeId next);
  NodeId AnyOfSorted(const std::vector<std::string>& texts, size_t begin, size_t end, size_t depth,
                     NodeId next);
  NodeId UpToDigits(int count, NodeId next);
  NodeId Magnitude(int64_t min, int64_t max, NodeId next);
  NodeId FixedDigits(const std::string& min, const std::string& max, size_t position, bool at_min,
                     bool at_max, NodeId next);
  NodeId Fraction(int64_t min, int64_t max, NodeId next);
  NodeId FractionDigits(const std::string& min, const std::string& max, size_t position,
                        bool at_min, bool at_max, NodeId next);
  NodeId Units(int64_t min, int64_t max, NodeId next);

  GrammarBuilder& builder_;
  std::optional<RuleId> blank_;
  std::optional<RuleId> character_;
  std::optional<RuleId> number_;
  std::map<std::pair<int64_t, int64_t>, RuleId> strings_;
};

// The smallest number of units that is at least `bound`, or greater; the largest at most, or less.
// Exact for who reads the decimals as doubles. `bound` is within kMaxUnits.
int64_t UnitsFrom(double bound, bool is_exclusive);
int64_t UnitsTo(double bound, bool is_exclusive);

}  // namespace cachalot
