#include "grammar/schema_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "grammar/json_text.h"

namespace cachalot {
namespace {

constexpr int64_t kBeyondIntegers = JsonText::kMaxInteger + 1;

// The integer next to a bound on the side of the `sign`, the bound itself included unless it is
// exclusive; one beyond kMaxInteger where the bound is.
int64_t NextInteger(const NumericBound& bound, int sign) {
  const auto near = bound.value.get<double>();
  if (std::abs(near) >= static_cast<double>(kBeyondIntegers)) {
    return near > 0 ? kBeyondIntegers : -kBeyondIntegers;
  }
  const bool is_integer = bound.value.is_number_integer() || std::floor(near) == near;
  const int64_t next = bound.value.is_number_integer()
                           ? bound.value.get<int64_t>()
                           : static_cast<int64_t>(sign > 0 ? std::ceil(near) : std::floor(near));
  return next + (is_integer && bound.is_exclusive ? sign : 0);
}

}  // namespace

bool NumericBounds::Contain(const OrderedJson& number) const {
  return std::all_of(at_least.begin(), at_least.end(),
                     [&](const NumericBound& bound) {
                       return bound.is_exclusive ? number > bound.value : number >= bound.value;
                     }) &&
         std::all_of(at_most.begin(), at_most.end(), [&](const NumericBound& bound) {
           return bound.is_exclusive ? number < bound.value : number <= bound.value;
         });
}

Limits NumericBounds::Integers() const {
  Limits limits = {-JsonText::kMaxInteger, JsonText::kMaxInteger};
  for (const NumericBound& bound : at_least) {
    limits.min = std::max(limits.min, NextInteger(bound, 1));
  }
  for (const NumericBound& bound : at_most) {
    limits.max = std::min(limits.max, NextInteger(bound, -1));
  }
  return limits;
}

Limits NumericBounds::Units() const {
  constexpr double kMost =
      static_cast<double>(JsonText::kMaxUnits) / static_cast<double>(JsonText::kUnitsPerOne);
  Limits limits = {-JsonText::kMaxUnits, JsonText::kMaxUnits};
  for (const NumericBound& bound : at_least) {
    const auto value = bound.value.get<double>();
    if (value > kMost) {
      return {1, 0};
    }
    if (value > -kMost) {
      limits.min = std::max(limits.min, UnitsFrom(value, bound.is_exclusive));
    }
  }
  for (const NumericBound& bound : at_most) {
    const auto value = bound.value.get<double>();
    if (value < -kMost) {
      return {1, 0};
    }
    if (value < kMost) {
      limits.max = std::min(limits.max, UnitsTo(value, bound.is_exclusive));
    }
  }
  return limits;
}

std::optional<std::string_view> PatternOfFormat(std::string_view format) {
#define CACHALOT_DATE                                                                       \
  "[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]" \
  "\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"
#define CACHALOT_TIME \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define CACHALOT_BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define CACHALOT_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
  constexpr std::pair<std::string_view, std::string_view> kPatterns[] = {
      {"date", "^" CACHALOT_DATE "$"},
      {"time", "^" CACHALOT_TIME "$"},
      {"date-time", "^" CACHALOT_DATE "T" CACHALOT_TIME "$"},
      {"uuid", "^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$"},
      {"ipv4", "^(?:" CACHALOT_BYTE "\\.){3}" CACHALOT_BYTE "$"},
      {"ipv6", "^(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}$"},
      {"hostname", "^" CACHALOT_LABEL "(?:\\." CACHALOT_LABEL "){0,3}$"},
      {"email", "^[A-Za-z0-9_%+-]+(?:\\.[A-Za-z0-9_%+-]+)*@" CACHALOT_LABEL "(?:\\." CACHALOT_LABEL
                "){1,3}$"},
      {"uri",
       "^[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9.-]+(?::\\d{1,4})?(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@/"
       "-]|%[0-9A-Fa-f]{2})*)?(?:\\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?(?:#(?:[A-"
       "Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?$"},
  };
#undef CACHALOT_DATE
#undef CACHALOT_TIME
#undef CACHALOT_BYTE
#undef CACHALOT_LABEL
  for (const auto& [known, pattern] : kPatterns) {
    if (format == known) {
      return pattern;
    }
  }
  return std::nullopt;
}

}  // namespace cachalot
