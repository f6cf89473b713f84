// What keywords of numbers and strings say of one value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "io/json.h"

namespace cachalot {

struct Limits {
  int64_t min = 0;
  int64_t max = kUnbounded;
};

struct NumericBound {
  OrderedJson value;  // a number
  bool is_exclusive;
};

struct NumericBounds {
  std::vector<NumericBound> at_least;
  std::vector<NumericBound> at_most;

  bool empty() const { return at_least.empty() && at_most.empty(); }
  bool Contain(const OrderedJson& number) const;
  // Of the integers that JsonText writes; min above max where there are none.
  Limits Integers() const;
  // Of the millionths that JsonText writes, likewise.
  Limits Units() const;
};

// The pattern of a format, or nothing where it is not known.
std::optional<std::string_view> PatternOfFormat(std::string_view format);

}  // namespace cachalot
