#include "server/json_fields.h"

#include <limits>
#include <utility>

#include "chat/python_json.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

std::string RangeText(int64_t low, int64_t high) {
  if (low == kLowest && high == kHighest) {
    return "an integer";
  }
  return high == kHighest ? fmt::format("an integer of {} or more", low)
                          : fmt::format("an integer from {} to {}", low, high);
}

}  // namespace

JsonFields::JsonFields(const OrderedJson& object, std::string place, std::string path)
    : object_(&object), place_(std::move(place)), path_(std::move(path)) {}

const OrderedJson* JsonFields::Find(std::string_view name) const {
  const auto member = object_->find(std::string(name));
  return member == object_->end() || member->is_null() ? nullptr : &*member;
}

Result<std::optional<bool>> JsonFields::Flag(std::string_view name) const {
  const OrderedJson* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    return Wrong(name, *value, "true or false");
  }
  return value->get<bool>();
}

Result<std::optional<double>> JsonFields::Number(std::string_view name) const {
  const OrderedJson* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  return NumberOf(name, *value);
}

Result<std::optional<int64_t>> JsonFields::Integer(std::string_view name, int64_t low,
                                                   int64_t high) const {
  const OrderedJson* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  return IntegerOf(name, *value, low, high);
}

Result<std::optional<std::string>> JsonFields::Text(std::string_view name) const {
  const OrderedJson* value = Find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    return Wrong(name, *value, "a string");
  }
  return value->get<std::string>();
}

Result<const OrderedJson*> JsonFields::Object(std::string_view name) const {
  const OrderedJson* value = Find(name);
  if (value != nullptr && !value->is_object()) {
    return Wrong(name, *value, "an object");
  }
  return value;
}

Result<const OrderedJson*> JsonFields::List(std::string_view name) const {
  const OrderedJson* value = Find(name);
  if (value != nullptr && !value->is_array()) {
    return Wrong(name, *value, "a list");
  }
  return value;
}

JsonFields JsonFields::Within(std::string_view name, const OrderedJson& object) const {
  return JsonFields(object, place_, PathOf(name));
}

Result<std::string> JsonFields::RequiredText(std::string_view name) const {
  CACHALOT_ASSIGN_OR_RETURN(std::optional<std::string> text, Text(name));
  if (!text) {
    return Fault(fmt::format("{} is missing, expected a string", PathOf(name)), PathOf(name));
  }
  return *std::move(text);
}

Result<double> JsonFields::NumberOf(std::string_view name, const OrderedJson& value) const {
  if (!value.is_number()) {
    return Wrong(name, value, "a number");
  }
  return value.get<double>();
}

Result<int64_t> JsonFields::IntegerOf(std::string_view name, const OrderedJson& value, int64_t low,
                                      int64_t high) const {
  const bool too_large =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kHighest);
  if (!value.is_number_integer() || too_large || value.get<int64_t>() < low ||
      value.get<int64_t>() > high) {
    return Wrong(name, value, RangeText(low, high));
  }
  return value.get<int64_t>();
}

tl::unexpected<Error> JsonFields::Wrong(std::string_view name, const OrderedJson& found,
                                        std::string_view expected) const {
  const std::string text = DumpPythonJson(found);
  const std::string_view shown = Utf8Prefix(text, kMaxShownBytes);
  const std::string path = PathOf(name);
  return Fault(fmt::format("{} is {}{}, expected {}", path, shown,
                           shown.size() < text.size() ? "…" : "", expected),
               path);
}

tl::unexpected<Error> JsonFields::Fault(std::string_view message, std::string_view subject) const {
  return tl::unexpected(Error{StatusCode::kInvalidArgument,
                              fmt::format("{}{}{}", place_, place_.empty() ? "" : ": ", message),
                              std::string(subject)});
}

std::string JsonFields::PathOf(std::string_view name) const {
  return fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", name);
}

}  // namespace cachalot
