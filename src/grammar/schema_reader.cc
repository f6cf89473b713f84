#include "grammar/schema_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "io/utf8.h"

namespace cachalot {
namespace {

constexpr size_t kMaxQuoted = 100;
constexpr size_t kMaxJoining = 512;
constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;

// What no grammar here enforces.
constexpr std::array<std::string_view, 21> kRefused = {
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "patternProperties",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
    "extends",
    "disallow",
    "divisibleBy",
    "$dynamicRef",
    "$recursiveRef",
    "$extends",
};

// Keywords that say something of values of a type.
struct Applicable {
  std::string_view keyword;
  JsonTypes types;
};
constexpr std::array<Applicable, 20> kApplicable = {{
    {"type", 0},
    {"enum", 0},
    {"const", 0},
    {"minLength", kStringType},
    {"maxLength", kStringType},
    {"pattern", kStringType},
    {"format", kStringType},
    {"minimum", kNumberType},
    {"maximum", kNumberType},
    {"exclusiveMinimum", kNumberType},
    {"exclusiveMaximum", kNumberType},
    {"items", kArrayType},
    {"prefixItems", kArrayType},
    {"minItems", kArrayType},
    {"maxItems", kArrayType},
    {"properties", kObjectType},
    {"required", kObjectType},
    {"additionalProperties", kObjectType},
    {"minProperties", kObjectType},
    {"maxProperties", kObjectType},
}};

// That a name is a string, which it always is, as some libraries write for every map.
bool SaysNothingOfNames(const OrderedJson& names) {
  return names == true || names == OrderedJson::object() ||
         names == OrderedJson{{"type", "string"}};
}

std::string_view Quoted(std::string_view text) { return Utf8Prefix(text, kMaxQuoted); }

const OrderedJson* Find(const SchemaAt& at, std::string_view key) {
  const auto found = at.json->find(key);
  return found == at.json->end() ? nullptr : &*found;
}

std::optional<JsonTypes> TypesOfName(std::string_view name) {
  constexpr std::pair<std::string_view, JsonTypes> kNames[] = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType},
      {"number", kNumberType}, {"string", kStringType},   {"array", kArrayType},
      {"object", kObjectType}};
  for (const auto& [known, types] : kNames) {
    if (name == known) {
      return types;
    }
  }
  return std::nullopt;
}

Status ReadType(const SchemaAt& at, Keywords& keywords) {
  JsonTypes types = 0;
  const bool is_list = at.json->is_array();
  for (size_t i = 0; i < (is_list ? at.json->size() : 1); ++i) {
    const OrderedJson& name = is_list ? (*at.json)[i] : *at.json;
    const auto known =
        name.is_string() ? TypesOfName(name.get_ref<const std::string&>()) : std::nullopt;
    if (!known) {
      return SchemaError(at, kInvalid, "expected the name of a type or a list of them");
    }
    types |= *known;
  }
  if (types == 0) {
    return SchemaError(at, kInvalid, "expected one type at least");
  }
  keywords.types &= types;
  return {};
}

Status ReadLimits(const SchemaAt& part, std::string_view min_name, std::string_view max_name,
                  Limits& limits) {
  Limits own;
  for (const std::string_view name : {min_name, max_name}) {
    const OrderedJson* value = Find(part, name);
    if (value == nullptr) {
      continue;
    }
    const bool is_count =
        value->is_number() && value->get<double>() >= 0 &&
        (value->is_number_integer() || std::floor(value->get<double>()) == value->get<double>());
    if (!is_count) {
      return SchemaError(MemberOf(part, name), kInvalid, "expected an integer from 0");
    }
    // Nothing is so long.
    const int64_t count =
        value->get<double>() > 1e15 ? int64_t{1'000'000'000'000'000} : value->get<int64_t>();
    (name == min_name ? own.min : own.max) = count;
  }
  if (own.min > own.max) {
    return SchemaError(MemberOf(part, min_name), kInvalid, "{} is more than {} {}", own.min,
                       max_name, own.max);
  }
  limits.min = std::max(limits.min, own.min);
  limits.max = std::min(limits.max, own.max);
  return {};
}

Status ReadBound(const SchemaAt& part, std::string_view name, bool is_exclusive,
                 std::vector<NumericBound>& bounds) {
  const OrderedJson* value = Find(part, name);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_number()) {
    return SchemaError(MemberOf(part, name), kInvalid, "expected a number");
  }
  bounds.push_back({*value, is_exclusive});
  return {};
}

Status ReadValues(const SchemaAt& part, Keywords& keywords) {
  const auto intersect = [&](const std::vector<OrderedJson>& values) {
    if (!keywords.values) {
      keywords.values = values;
      return;
    }
    std::erase_if(*keywords.values, [&](const OrderedJson& value) {
      return std::find(values.begin(), values.end(), value) == values.end();
    });
  };
  if (const OrderedJson* one = Find(part, "const")) {
    intersect({*one});
  }
  if (const OrderedJson* list = Find(part, "enum")) {
    if (!list->is_array() || list->empty()) {
      return SchemaError(MemberOf(part, "enum"), kInvalid, "expected a list of one value at least");
    }
    intersect(list->get_ref<const OrderedJson::array_t&>());
  }
  return {};
}

Status ReadRequired(const SchemaAt& part, Keywords& keywords) {
  const OrderedJson* list = Find(part, "required");
  if (list == nullptr) {
    return {};
  }
  const OrderedJson* additional = Find(part, "additionalProperties");
  const bool is_closed = additional != nullptr && *additional == false;
  const PropertyIndex properties = PropertiesOf(part);
  if (!list->is_array()) {
    return SchemaError(MemberOf(part, "required"), kInvalid, "expected a list of names");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const SchemaAt at = ElementOf(MemberOf(part, "required"), i);
    if (!(*list)[i].is_string()) {
      return SchemaError(at, kInvalid, "expected the name of a property");
    }
    const auto& name = (*list)[i].get_ref<const std::string&>();
    if (is_closed && !properties.contains(name)) {
      return SchemaError(at, kInvalid,
                         "\"{}\" is none of the properties, and additionalProperties is false",
                         Quoted(name));
    }
    keywords.required.push_back(name);
  }
  return {};
}

}  // namespace

std::string ShortPointer(std::string_view pointer) {
  if (pointer.size() <= kMaxQuoted) {
    return std::string(pointer);
  }
  pointer.remove_prefix(pointer.size() - kMaxQuoted);
  while ((static_cast<unsigned char>(pointer.front()) & 0xC0) == 0x80) {
    pointer.remove_prefix(1);
  }
  return fmt::format("#…{}", pointer);
}

std::string PointerTo(std::string_view pointer, std::string_view key) {
  std::string member = fmt::format("{}/", pointer);
  for (const char c : key) {
    if (c == '~') {
      member += "~0";
    } else if (c == '/') {
      member += "~1";
    } else {
      // One line, whatever a name has in it.
      member += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return member;
}

SchemaAt MemberOf(const SchemaAt& at, std::string_view key) {
  const OrderedJson* member =
      at.json->is_object() && at.json->contains(key) ? &at.json->at(key) : nullptr;
  return {member, member != nullptr ? PointerTo(at.pointer, key) : std::string()};
}

PropertyIndex PropertiesOf(const SchemaAt& part) {
  PropertyIndex properties;
  if (const OrderedJson* found = Find(part, "properties"); found && found->is_object()) {
    for (const auto& [name, schema] : found->get_ref<const OrderedJson::object_t&>()) {
      properties.emplace(name, &schema);
    }
  }
  return properties;
}

SchemaAt ElementOf(const SchemaAt& at, size_t index) {
  return {&(*at.json)[index], fmt::format("{}/{}", at.pointer, index)};
}

JsonTypes TypeOf(const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::null:
      return kNullType;
    case OrderedJson::value_t::boolean:
      return kBooleanType;
    case OrderedJson::value_t::number_float:
      return std::floor(value.get<double>()) == value.get<double>() ? kIntegerType : kFractionType;
    case OrderedJson::value_t::number_integer:
    case OrderedJson::value_t::number_unsigned:
      return kIntegerType;
    case OrderedJson::value_t::string:
      return kStringType;
    case OrderedJson::value_t::array:
      return kArrayType;
    default:
      return kObjectType;
  }
}

std::optional<std::string_view> FindContradiction(const Keywords& keywords) {
  if (keywords.types == 0) {
    return "no type is left";
  }
  const auto differ = [](const Limits& limits) { return limits.min > limits.max; };
  const bool is_empty = (keywords.types == kStringType && differ(keywords.length)) ||
                        (keywords.types == kArrayType && differ(keywords.items)) ||
                        (keywords.types == kObjectType && differ(keywords.members));
  if (is_empty) {
    return "the limits of its size leave nothing";
  }
  const bool has_values =
      !keywords.values ||
      std::any_of(keywords.values->begin(), keywords.values->end(),
                  [&](const OrderedJson& value) { return (TypeOf(value) & keywords.types) != 0; });
  if (!has_values) {
    return "enum, const and type have no value in common";
  }
  for (const NumericBound& least : keywords.bounds.at_least) {
    for (const NumericBound& most : keywords.bounds.at_most) {
      const bool meets_nowhere =
          least.value == most.value && (least.is_exclusive || most.is_exclusive);
      if ((keywords.types & ~kNumberType) == 0 && (least.value > most.value || meets_nowhere)) {
        return "the bounds of a number leave nothing";
      }
    }
  }
  return std::nullopt;
}

Result<SchemaAt> SchemaReader::Resolve(const SchemaAt& reference) const {
  const auto* text = reference.json->get_ptr<const std::string*>();
  if (text == nullptr) {
    return SchemaError(reference, kInvalid, "expected a reference such as \"#/$defs/name\"");
  }
  std::string_view rest = *text;
  SchemaAt at = {&document_, "#"};
  const auto hex = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  if (!rest.starts_with('#') || (rest.size() > 1 && rest[1] != '/')) {
    return SchemaError(reference, StatusCode::kUnsupported,
                       "\"{}\" leads out of the schema, expected \"#\" or \"#/...\"", Quoted(rest));
  }
  rest.remove_prefix(1);
  while (!rest.empty()) {
    const std::string_view step = rest.substr(1, rest.find('/', 1) - 1);
    rest.remove_prefix(1 + step.size());
    std::string key;
    for (size_t i = 0; i < step.size(); ++i) {
      char c = step[i];
      if (c == '%' && i + 2 < step.size() && hex(step[i + 1]) >= 0 && hex(step[i + 2]) >= 0) {
        c = static_cast<char>(hex(step[i + 1]) * 16 + hex(step[i + 2]));
        i += 2;
      } else if (c == '~' && i + 1 < step.size()) {
        c = step[++i] == '1' ? '/' : '~';
      }
      key += c;
    }
    SchemaAt next;
    if (at.json->is_object()) {
      next = MemberOf(at, key);
    } else if (at.json->is_array()) {
      for (size_t i = 0; i < at.json->size(); ++i) {
        if (key == std::to_string(i)) {
          next = ElementOf(at, i);
        }
      }
    }
    if (next.json == nullptr) {
      return SchemaError(reference, kInvalid, "\"{}\" leads nowhere", Quoted(*text));
    }
    at = std::move(next);
  }
  return at;
}

Status SchemaReader::Join(const SchemaAt& schema, Conjunction& conjunction) {
  if (schema.json->is_boolean()) {
    if (*schema.json == false) {
      conjunction.never = schema;
    }
    return {};
  }
  if (!schema.json->is_object()) {
    return SchemaError(schema, kInvalid, "expected a schema, which is an object or a boolean");
  }
  if (std::find(joining_.begin(), joining_.end(), schema.json) != joining_.end()) {
    return SchemaError(schema, kInvalid, "refers to itself");
  }
  if (joining_.size() == kMaxJoining) {
    return SchemaError(schema, kInvalid, "$ref and allOf in one another more than {} times",
                       kMaxJoining);
  }
  for (const std::string_view keyword : kRefused) {
    const SchemaAt at = MemberOf(schema, keyword);
    const bool is_void = keyword == "propertyNames" && at.json && SaysNothingOfNames(*at.json);
    if (at.json && !is_void) {
      return SchemaError(at, StatusCode::kUnsupported, "this keyword cannot be enforced");
    }
  }
  const auto append_once = [](std::vector<SchemaAt>& list, const SchemaAt& added) {
    const bool is_there = std::any_of(
        list.begin(), list.end(), [&](const SchemaAt& known) { return known.json == added.json; });
    if (!is_there) {
      list.push_back(added);
    }
  };
  bool has_own = schema.json->contains("multipleOf") || schema.json->contains("uniqueItems");
  for (const Applicable& applicable : kApplicable) {
    has_own = has_own || schema.json->contains(applicable.keyword);
  }
  if (has_own) {
    append_once(conjunction.parts, schema);
  }
  joining_.push_back(schema.json);
  const auto join_references = [&]() -> Status {
    if (Find(schema, "$ref") != nullptr) {
      CACHALOT_ASSIGN_OR_RETURN(const SchemaAt target, Resolve(MemberOf(schema, "$ref")));
      CACHALOT_RETURN_IF_ERROR(Join(target, conjunction));
    }
    for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
      const SchemaAt list = MemberOf(schema, keyword);
      if (list.json == nullptr) {
        continue;
      }
      if (!list.json->is_array() || list.json->empty()) {
        return SchemaError(list, kInvalid, "expected a list of one schema at least");
      }
      if (keyword != "allOf") {
        append_once(conjunction.choices, list);
        continue;
      }
      for (size_t i = 0; i < list.json->size(); ++i) {
        CACHALOT_RETURN_IF_ERROR(Join(ElementOf(list, i), conjunction));
      }
    }
    return {};
  };
  Status joined = join_references();
  joining_.pop_back();
  return joined;
}

Status SchemaReader::ReadPart(const SchemaAt& part, Keywords& keywords) const {
  for (const Applicable& applicable : kApplicable) {
    if (part.json->contains(applicable.keyword)) {
      keywords.applies_to |= applicable.types;
    }
  }
  if (Find(part, "type") != nullptr) {
    CACHALOT_RETURN_IF_ERROR(ReadType(MemberOf(part, "type"), keywords));
  }
  CACHALOT_RETURN_IF_ERROR(ReadValues(part, keywords));
  CACHALOT_RETURN_IF_ERROR(ReadLimits(part, "minLength", "maxLength", keywords.length));
  CACHALOT_RETURN_IF_ERROR(ReadLimits(part, "minItems", "maxItems", keywords.items));
  CACHALOT_RETURN_IF_ERROR(ReadLimits(part, "minProperties", "maxProperties", keywords.members));
  CACHALOT_RETURN_IF_ERROR(ReadBound(part, "minimum", false, keywords.bounds.at_least));
  CACHALOT_RETURN_IF_ERROR(ReadBound(part, "exclusiveMinimum", true, keywords.bounds.at_least));
  CACHALOT_RETURN_IF_ERROR(ReadBound(part, "maximum", false, keywords.bounds.at_most));
  CACHALOT_RETURN_IF_ERROR(ReadBound(part, "exclusiveMaximum", true, keywords.bounds.at_most));
  CACHALOT_RETURN_IF_ERROR(ReadRequired(part, keywords));
  for (const std::string_view name : {"pattern", "format"}) {
    const SchemaAt at = MemberOf(part, name);
    if (at.json == nullptr) {
      continue;
    }
    const auto* text = at.json->get_ptr<const std::string*>();
    if (text == nullptr) {
      return SchemaError(at, kInvalid, "expected a string");
    }
    if (name == "pattern") {
      keywords.patterns.push_back(at);
    } else if (PatternOfFormat(*text)) {
      keywords.formats.push_back(at);
    }
  }
  if (const SchemaAt at = MemberOf(part, "properties"); at.json && !at.json->is_object()) {
    return SchemaError(at, kInvalid, "expected an object of schemas");
  }
  if (const SchemaAt at = MemberOf(part, "prefixItems"); at.json && !at.json->is_array()) {
    return SchemaError(at, kInvalid, "expected a list of schemas");
  }
  if (const SchemaAt at = MemberOf(part, "multipleOf"); at.json) {
    // Every integer is one of 1.
    if (*at.json != 1 || (keywords.types & kFractionType) != 0) {
      return SchemaError(at, StatusCode::kUnsupported, "this keyword cannot be enforced");
    }
  }
  if (const SchemaAt at = MemberOf(part, "uniqueItems"); at.json && *at.json != false) {
    return SchemaError(at, StatusCode::kUnsupported, "this keyword cannot be enforced");
  }
  return {};
}

Result<Keywords> SchemaReader::Read(const Conjunction& conjunction) const {
  Keywords keywords;
  for (const SchemaAt& part : conjunction.parts) {
    CACHALOT_RETURN_IF_ERROR(ReadPart(part, keywords));
  }
  return keywords;
}

}  // namespace cachalot
