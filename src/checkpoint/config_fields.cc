#include "checkpoint/config_fields.h"

#include <algorithm>
#include <utility>

namespace cachalot {
namespace {

const Json& EmptyObject() {
  static const Json empty = Json::object();
  return empty;
}

bool IsIntegerWithin(const Json& value, int64_t least, int64_t most) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return false;
  }
  return value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

bool IsOneOf(const Json& value, const std::vector<std::string>& allowed) {
  return value.is_string() && std::find(allowed.begin(), allowed.end(),
                                        value.get_ref<const std::string&>()) != allowed.end();
}

std::string ListOf(const std::vector<std::string>& allowed) {
  return fmt::format("\"{}\"", fmt::join(allowed, "\" or \""));
}

}  // namespace

ConfigFields::ConfigFields(const Json& object, std::string where, std::optional<Error>* fault)
    : object_(object), where_(std::move(where)), fault_(fault) {}

bool ConfigFields::Has(const std::string& name) const {
  const auto found = object_.find(name);
  return found != object_.end() && !found->is_null();
}

const Json* ConfigFields::Find(const std::string& name, const std::string& expected) {
  const auto found = object_.find(name);
  if (found == object_.end()) {
    Fail(StatusCode::kInvalidArgument, "{} is missing, expected {}", name, expected);
    return nullptr;
  }
  return &*found;
}

void ConfigFields::FailValue(const std::string& name, const Json& found,
                             const std::string& expected, StatusCode code) {
  constexpr size_t kShown = 60;
  // A long value is told by its kind: to print a hostile one costs as much as it holds.
  const bool large = found.is_structured() && found.size() > 8;
  std::string text =
      large ? fmt::format("an {} of {}", found.type_name(), found.size()) : DumpJson(found);
  if (text.size() > kShown) {
    text = DumpJson(Json(text.substr(0, kShown))) + "...";
  }
  Fail(code, "{} is {}, expected {}", name, text, expected);
}

int64_t ConfigFields::Integer(const std::string& name, int64_t least, int64_t most) {
  const std::string expected = fmt::format("an integer from {} to {}", least, most);
  const Json* found = Find(name, expected);
  if (found == nullptr) {
    return 0;
  }
  if (!IsIntegerWithin(*found, least, most)) {
    FailValue(name, *found, expected);
    return 0;
  }
  return found->get<int64_t>();
}

double ConfigFields::Number(const std::string& name, double least, double most) {
  const std::string expected = fmt::format("a number from {} to {}", least, most);
  const Json* found = Find(name, expected);
  if (found == nullptr) {
    return 0;
  }
  if (!found->is_number() || !(found->get<double>() >= least && found->get<double>() <= most)) {
    FailValue(name, *found, expected);
    return 0;
  }
  return found->get<double>();
}

std::string ConfigFields::OneOf(const std::string& name, const std::vector<std::string>& allowed,
                                StatusCode code) {
  const std::string expected = ListOf(allowed);
  const Json* found = Find(name, expected);
  if (found == nullptr) {
    return "";
  }
  if (!IsOneOf(*found, allowed)) {
    FailValue(name, *found, expected, code);
    return "";
  }
  return found->get<std::string>();
}

std::vector<int64_t> ConfigFields::Integers(const std::string& name, int64_t least, int64_t most,
                                            size_t most_entries) {
  const std::string expected =
      fmt::format("at most {} integers from {} to {}", most_entries, least, most);
  const Json* found = Find(name, expected);
  if (found == nullptr) {
    return {};
  }
  if (!found->is_array() || found->size() > most_entries) {
    FailValue(name, *found, expected);
    return {};
  }
  std::vector<int64_t> values;
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& entry = (*found)[i];
    if (!IsIntegerWithin(entry, least, most)) {
      FailValue(fmt::format("{}[{}]", name, i), entry,
                fmt::format("an integer from {} to {}", least, most));
      return {};
    }
    values.push_back(entry.get<int64_t>());
  }
  return values;
}

std::vector<std::string> ConfigFields::Strings(const std::string& name, size_t most_entries,
                                               const std::vector<std::string>& allowed) {
  const std::string expected = fmt::format("at most {} strings", most_entries);
  const Json* found = Find(name, expected);
  if (found == nullptr) {
    return {};
  }
  if (!found->is_array() || found->size() > most_entries) {
    FailValue(name, *found, expected);
    return {};
  }
  std::vector<std::string> values;
  for (size_t i = 0; i < found->size(); ++i) {
    if (!IsOneOf((*found)[i], allowed)) {
      FailValue(fmt::format("{}[{}]", name, i), (*found)[i], ListOf(allowed));
      return {};
    }
    values.push_back((*found)[i].get<std::string>());
  }
  return values;
}

ConfigFields ConfigFields::Object(const std::string& name) {
  const Json* found = Find(name, "an object");
  if (found != nullptr && !found->is_object()) {
    FailValue(name, *found, "an object");
    found = nullptr;
  }
  return ConfigFields(found == nullptr ? EmptyObject() : *found, where_ + ": " + name, fault_);
}

std::vector<std::string> ConfigFields::Names() const {
  std::vector<std::string> names;
  for (const auto& item : object_.items()) {
    names.push_back(item.key());
  }
  return names;
}

void ConfigFields::Require(const std::string& name, const Json& value) {
  const Json* found = Find(name, DumpJson(value));
  if (found != nullptr && *found != value) {
    FailValue(name, *found, DumpJson(value));
  }
}

void ConfigFields::RequireIfPresent(const std::string& name, const Json& value) {
  if (Has(name)) {
    Require(name, value);
  }
}

}  // namespace cachalot
