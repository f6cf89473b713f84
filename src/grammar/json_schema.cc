#include "grammar/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "grammar/json_text.h"
#include "grammar/schema_reader.h"
#include "grammar/text_set.h"

namespace cachalot {
namespace {

// Conjunctions of different schemas may be many more than the schemas.
constexpr size_t kMaxRules = 20'000;
// Of properties in properties, for oneOf, and of properties in all.
constexpr int kMaxComparedLevels = 4;
constexpr size_t kMaxCompared = 100'000;

// A property that an object's schemas name.
struct Property {
  std::string name;
  Conjunction value;
  bool is_required = false;
};

struct ObjectShape {
  std::vector<Property> properties;
  std::optional<Conjunction> additional;  // of other properties; nothing: there are none
};

class SchemaCompiler {
 public:
  explicit SchemaCompiler(const OrderedJson& document)
      : document_(document), reader_(document), text_(builder_) {}

  Result<Grammar> Compile(const InsteadOfJson& instead) {
    Conjunction whole;
    CACHALOT_RETURN_IF_ERROR(reader_.Join({&document_, "#"}, whole));
    RuleId root = RuleOf(whole, "#");
    while (!todo_.empty() && !builder_.is_full()) {
      const auto [rule, conjunction, pointer] = std::move(todo_.front());
      todo_.pop_front();
      CACHALOT_ASSIGN_OR_RETURN(const NodeId begin, Define(conjunction, pointer));
      builder_.DefineRule(rule, begin);
      if (rules_.size() > kMaxRules) {
        return SchemaError({nullptr, pointer}, StatusCode::kInvalidArgument,
                           "too large: more than {} combinations of schemas", kMaxRules);
      }
    }
    if (instead) {
      CACHALOT_ASSIGN_OR_RETURN(const NodeId other, instead(builder_));
      const NodeId json = builder_.Call(root, builder_.Return());
      root = builder_.DeclareRule("JSON or something else");
      builder_.DefineRule(root, builder_.Split({json, other}));
    }
    auto grammar = std::move(builder_).Build(root);
    if (!grammar) {
      std::string& message = grammar.error().message;
      message = message.starts_with("#") ? message : "#: " + message;
    }
    return grammar;
  }

 private:
  struct Undefined {
    RuleId rule;
    Conjunction conjunction;
    std::string pointer;
  };

  static std::string PointerOf(const Conjunction& conjunction, const std::string& fallback) {
    return !conjunction.parts.empty()     ? conjunction.parts.front().pointer
           : !conjunction.choices.empty() ? conjunction.choices.front().pointer
                                          : fallback;
  }

  RuleId Declare(const std::string& pointer) { return builder_.DeclareRule(ShortPointer(pointer)); }

  // One rule for all places that demand the same.
  RuleId RuleOf(const Conjunction& conjunction, const std::string& pointer) {
    std::set<const OrderedJson*> key;
    for (const auto* list : {&conjunction.parts, &conjunction.choices}) {
      for (const SchemaAt& at : *list) {
        key.insert(at.json);
      }
    }
    if (conjunction.never) {
      key = {nullptr};
    }
    const auto [known, is_new] = rules_.try_emplace(std::move(key), 0);
    if (is_new) {
      const std::string place = PointerOf(conjunction, pointer);
      known->second = Declare(place);
      todo_.push_back({known->second, conjunction, place});
    }
    return known->second;
  }

  NodeId Value(const Conjunction& conjunction, const std::string& pointer, NodeId next) {
    return builder_.Call(RuleOf(conjunction, pointer), next);
  }

  Result<NodeId> Define(const Conjunction& conjunction, const std::string& pointer) {
    if (conjunction.never) {
      return builder_.Nothing();
    }
    if (!conjunction.choices.empty()) {
      return DefineChoice(conjunction);
    }
    CACHALOT_ASSIGN_OR_RETURN(Keywords keywords, reader_.Read(conjunction));
    if (const auto contradiction = FindContradiction(keywords)) {
      if (conjunction.parts.size() == 1) {
        return SchemaError(conjunction.parts.front(), StatusCode::kInvalidArgument,
                           "nothing satisfies it: {}", *contradiction);
      }
      return builder_.Nothing();
    }
    if (keywords.values) {
      return DefineValues(conjunction, keywords);
    }
    const JsonTypes types = GeneratedTypes(keywords);
    std::vector<NodeId> ways;
    if ((types & kObjectType) != 0) {
      CACHALOT_ASSIGN_OR_RETURN(const NodeId object, DefineObject(conjunction, keywords, pointer));
      ways.push_back(object);
    }
    if ((types & kArrayType) != 0) {
      CACHALOT_ASSIGN_OR_RETURN(const NodeId array, DefineArray(conjunction, keywords, pointer));
      ways.push_back(array);
    }
    if ((types & kStringType) != 0) {
      CACHALOT_ASSIGN_OR_RETURN(const NodeId string, DefineString(keywords, pointer));
      ways.push_back(string);
    }
    if ((types & kNumberType) != 0) {
      CACHALOT_ASSIGN_OR_RETURN(const NodeId number, DefineNumber(keywords, types, pointer));
      ways.push_back(number);
    }
    std::vector<std::string> names;
    if ((types & kBooleanType) != 0) {
      names = {"false", "true"};
    }
    if ((types & kNullType) != 0) {
      names.push_back("null");
    }
    ways.push_back(text_.AnyOf(std::move(names), builder_.Return()));
    return builder_.Split(std::move(ways));
  }

  static JsonTypes ValidTypes(const Keywords& keywords) {
    JsonTypes types = keywords.values ? 0 : kAllTypes;
    for (const OrderedJson& value : keywords.values.value_or(std::vector<OrderedJson>())) {
      types |= TypeOf(value);
    }
    return types & keywords.types;
  }

  // Where `type` is not there, the types that other keywords speak of.
  static JsonTypes GeneratedTypes(const Keywords& keywords) {
    if (keywords.values) {
      return ValidTypes(keywords);
    }
    const JsonTypes spoken_of = keywords.types & keywords.applies_to;
    return keywords.types == kAllTypes && spoken_of != 0 ? spoken_of : keywords.types;
  }

  // --- anyOf and oneOf

  Result<NodeId> DefineChoice(const Conjunction& conjunction) {
    const SchemaAt list = conjunction.choices.front();
    Conjunction rest = conjunction;
    rest.choices.erase(rest.choices.begin());
    std::vector<Conjunction> alternatives;
    std::vector<NodeId> ways;
    for (size_t i = 0; i < list.json->size(); ++i) {
      const SchemaAt at = ElementOf(list, i);
      Conjunction& alternative = alternatives.emplace_back(rest);
      CACHALOT_RETURN_IF_ERROR(reader_.Join(at, alternative));
      ways.push_back(Value(alternative, at.pointer, builder_.Return()));
    }
    if (list.pointer.ends_with("/oneOf")) {
      for (size_t i = 0; i < alternatives.size(); ++i) {
        for (size_t j = 0; j < alternatives.size(); ++j) {
          if (i == j) {
            continue;
          }
          CACHALOT_ASSIGN_OR_RETURN(const bool excluded,
                                    Excludes(alternatives[i], alternatives[j], 0));
          if (num_compared_ > kMaxCompared) {
            return SchemaError(list, StatusCode::kUnsupported, "too many alternatives to compare");
          }
          if (!excluded) {
            return SchemaError(list, StatusCode::kUnsupported,
                               "a value may satisfy both {} and {}, which must be told apart by "
                               "type or by a required property with const or enum",
                               std::min(i, j), std::max(i, j));
          }
        }
      }
    }
    return builder_.Split(std::move(ways));
  }

  // Whether no value that is written for `one` satisfies `other`; true only where that is plain.
  Result<bool> Excludes(const Conjunction& one, const Conjunction& other, int depth) {
    if (one.never || other.never) {
      return true;
    }
    if (++num_compared_ > kMaxCompared) {
      return false;
    }
    CACHALOT_ASSIGN_OR_RETURN(const Keywords mine, reader_.Read(one));
    CACHALOT_ASSIGN_OR_RETURN(const Keywords theirs, reader_.Read(other));
    JsonTypes common = GeneratedTypes(mine) & ValidTypes(theirs);
    if (mine.values && theirs.values) {
      common = 0;
      for (const OrderedJson& value : *mine.values) {
        const bool is_theirs =
            std::find(theirs.values->begin(), theirs.values->end(), value) != theirs.values->end();
        common |= is_theirs ? TypeOf(value) & theirs.types : 0;
      }
    }
    if (common != kObjectType) {
      return common == 0;
    }
    if (depth == kMaxComparedLevels) {
      return false;
    }
    CACHALOT_ASSIGN_OR_RETURN(const ObjectShape my_shape, ShapeOf(one, mine, "#"));
    CACHALOT_ASSIGN_OR_RETURN(const ObjectShape their_shape, ShapeOf(other, theirs, "#"));
    num_compared_ += my_shape.properties.size() + their_shape.properties.size();
    const auto find = [](const ObjectShape& shape, const std::string& name) {
      return std::find_if(shape.properties.begin(), shape.properties.end(),
                          [&](const Property& property) { return property.name == name; });
    };
    for (const Property& property : my_shape.properties) {
      if (!property.is_required) {
        continue;
      }
      const auto same = find(their_shape, property.name);
      if (same == their_shape.properties.end()) {
        if (IsClosed(other)) {
          return true;
        }
        continue;
      }
      CACHALOT_ASSIGN_OR_RETURN(const bool excluded,
                                Excludes(property.value, same->value, depth + 1));
      if (excluded) {
        return true;
      }
    }
    return !my_shape.additional &&
           std::any_of(their_shape.properties.begin(), their_shape.properties.end(),
                       [&](const Property& property) {
                         return property.is_required &&
                                find(my_shape, property.name) == my_shape.properties.end();
                       });
  }

  static bool IsClosed(const Conjunction& conjunction) {
    return std::any_of(conjunction.parts.begin(), conjunction.parts.end(), [](const auto& part) {
      const SchemaAt additional = MemberOf(part, "additionalProperties");
      return additional.json != nullptr && *additional.json == false;
    });
  }

  // --- values, strings, numbers

  Result<NodeId> DefineValues(const Conjunction& conjunction, const Keywords& keywords) {
    CACHALOT_ASSIGN_OR_RETURN(const std::optional<TextSet> texts, TextsOf(keywords, false));
    std::vector<std::string> written;
    for (const OrderedJson& value : *keywords.values) {
      const JsonTypes type = TypeOf(value) & keywords.types;
      if (type == 0) {
        continue;
      }
      if (((kArrayType | kObjectType) & type & keywords.applies_to) != 0) {
        return SchemaError(conjunction.parts.front(), StatusCode::kUnsupported,
                           "keywords for arrays or objects beside an enum or const that has some "
                           "cannot be enforced");
      }
      if ((type & kNumberType) != 0 && !keywords.bounds.Contain(value)) {
        continue;
      }
      if (type == kStringType) {
        const auto& text = value.get_ref<const std::string&>();
        const auto length =
            static_cast<int64_t>(std::count_if(text.begin(), text.end(), [](char c) {
              return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
            }));
        if (length < keywords.length.min || length > keywords.length.max ||
            (texts && !texts->Contains(text))) {
          continue;
        }
      }
      written.push_back(DumpJson(value));
    }
    if (written.empty() && conjunction.parts.size() == 1) {
      return SchemaError(conjunction.parts.front(), StatusCode::kInvalidArgument,
                         "nothing satisfies it: no value of enum or const has its other bounds");
    }
    return text_.AnyOf(std::move(written), builder_.Return());
  }

  // What patterns and formats leave; nothing where there are none.
  Result<std::optional<TextSet>> TextsOf(const Keywords& keywords, bool with_formats) {
    std::optional<TextSet> texts;
    const auto restrict_to = [&](const SchemaAt& at, std::string_view pattern) -> Status {
      auto found = TextSet::OfPattern(pattern);
      if (found && texts) {
        found = TextSet::Intersection(*texts, *found);
      }
      if (!found) {
        return SchemaError(at, found.error().code, "{}", found.error().message);
      }
      texts = std::move(*found);
      return {};
    };
    for (const SchemaAt& at : keywords.patterns) {
      CACHALOT_RETURN_IF_ERROR(restrict_to(at, at.json->get_ref<const std::string&>()));
    }
    for (const SchemaAt& at : keywords.formats) {
      if (with_formats) {
        CACHALOT_RETURN_IF_ERROR(
            restrict_to(at, PatternOfFormat(at.json->get_ref<const std::string&>()).value()));
      }
    }
    return texts;
  }

  Result<NodeId> DefineString(const Keywords& keywords, const std::string& pointer) {
    CACHALOT_ASSIGN_OR_RETURN(std::optional<TextSet> texts, TextsOf(keywords, true));
    const Limits& length = keywords.length;
    if (!texts) {
      return text_.String(length.min, length.max, builder_.Return());
    }
    const bool has_length = length.min > 0 || length.max != kUnbounded;
    if (has_length) {
      auto bounded = TextSet::OfLength(length.min, length.max);
      if (bounded) {
        bounded = TextSet::Intersection(*texts, *bounded);
      }
      if (!bounded) {
        return SchemaError({nullptr, pointer}, bounded.error().code, "{}", bounded.error().message);
      }
      texts = std::move(*bounded);
    }
    if (texts->empty()) {
      return SchemaError({nullptr, pointer}, StatusCode::kInvalidArgument,
                         "no string satisfies its pattern, format and length");
    }
    return text_.String(*texts, builder_.Return());
  }

  Result<NodeId> DefineNumber(const Keywords& keywords, JsonTypes types,
                              const std::string& pointer) {
    const NodeId end = builder_.Return();
    const bool is_integer = (types & kFractionType) == 0;
    if (!is_integer && keywords.bounds.empty()) {
      return text_.Number(end);
    }
    const Limits limits = is_integer ? keywords.bounds.Integers() : keywords.bounds.Units();
    if (limits.min > limits.max) {
      return SchemaError({nullptr, pointer}, StatusCode::kInvalidArgument,
                         "no {} is within its bounds",
                         is_integer ? "integer of up to 18 digits"
                                    : "number of up to nine digits and six decimals");
    }
    return is_integer ? text_.Integer(limits.min, limits.max, end)
                      : text_.NumberOfUnits(limits.min, limits.max, end);
  }

  // --- arrays

  Result<NodeId> DefineArray(const Conjunction& conjunction, const Keywords& keywords,
                             const std::string& pointer) {
    const Limits& limits = keywords.items;
    size_t num_placed = 0;  // elements that prefixItems speaks of
    for (const SchemaAt& part : conjunction.parts) {
      const SchemaAt prefix = MemberOf(part, "prefixItems");
      num_placed = std::max(num_placed, prefix.json ? prefix.json->size() : 0);
    }
    num_placed = std::min(num_placed, static_cast<size_t>(limits.max));
    // Of element i, or of all from num_placed on.
    const auto element = [&](size_t i) -> Result<Conjunction> {
      Conjunction joined;
      for (const SchemaAt& part : conjunction.parts) {
        const SchemaAt prefix = MemberOf(part, "prefixItems");
        const SchemaAt items = MemberOf(part, "items");
        if (prefix.json && i < prefix.json->size()) {
          CACHALOT_RETURN_IF_ERROR(reader_.Join(ElementOf(prefix, i), joined));
        } else if (items.json) {
          CACHALOT_RETURN_IF_ERROR(reader_.Join(items, joined));
        }
      }
      return joined;
    };
    const std::string place = pointer + "/items";
    const NodeId close = builder_.Literal("]", builder_.Return());
    const NodeId end = text_.Blank(close);
    CACHALOT_ASSIGN_OR_RETURN(const Conjunction rest, element(num_placed));
    const auto placed = static_cast<int64_t>(num_placed);
    const RuleId more = Declare(place);
    builder_.DefineRule(more,
                        builder_.Literal(",", text_.Blank(Value(rest, place, builder_.Return()))));
    const int64_t most = rest.never ? placed : limits.max;
    const auto after = [&](int64_t count, NodeId then) {
      return builder_.Repeat(more, std::max<int64_t>(limits.min - count, 0),
                             most == kUnbounded ? kUnbounded : most - count, then);
    };
    NodeId first = builder_.Nothing();
    if (num_placed == 0) {
      first = most > 0 ? Value(rest, place, after(1, end)) : builder_.Nothing();
    } else {
      NodeId next = after(placed, end);  // of element i
      for (size_t i = num_placed; i-- > 0 && !builder_.is_full();) {
        CACHALOT_ASSIGN_OR_RETURN(const Conjunction value, element(i));
        first = Value(value, place, next);
        const NodeId following = builder_.Literal(",", text_.Blank(first));
        next =
            static_cast<int64_t>(i) >= limits.min ? builder_.Optional(following, end) : following;
      }
    }
    const NodeId empty = limits.min == 0 ? close : builder_.Nothing();
    return builder_.Literal("[", text_.Blank(builder_.Split({first, empty})));
  }

  // --- objects

  Result<ObjectShape> ShapeOf(const Conjunction& conjunction, const Keywords& keywords,
                              const std::string& pointer) {
    ObjectShape shape;
    std::map<std::string, size_t> known;
    const auto append = [&](const std::string& name) {
      if (known.try_emplace(name, shape.properties.size()).second) {
        shape.properties.push_back({name, {}, false});
      }
    };
    bool has_properties = false;
    bool has_additional = false;
    for (const SchemaAt& part : conjunction.parts) {
      const SchemaAt additional = MemberOf(part, "additionalProperties");
      has_additional = has_additional || (additional.json && *additional.json != false);
      if (const SchemaAt properties = MemberOf(part, "properties"); properties.json) {
        has_properties = true;
        for (const auto& [name, schema] : properties.json->items()) {
          append(name);
        }
      }
    }
    for (const std::string& name : keywords.required) {
      append(name);
      shape.properties[known.at(name)].is_required = true;
    }
    Conjunction others;
    for (const SchemaAt& part : conjunction.parts) {
      const PropertyIndex properties = PropertiesOf(part);
      const SchemaAt additional = MemberOf(part, "additionalProperties");
      if (additional.json) {
        CACHALOT_RETURN_IF_ERROR(reader_.Join(additional, others));
      }
      for (Property& property : shape.properties) {
        if (const auto own = properties.find(property.name); own != properties.end()) {
          const std::string place = PointerTo(part.pointer + "/properties", property.name);
          CACHALOT_RETURN_IF_ERROR(reader_.Join({own->second, place}, property.value));
        } else if (additional.json) {
          CACHALOT_RETURN_IF_ERROR(reader_.Join(additional, property.value));
        }
      }
    }
    if ((!has_properties || has_additional) && !others.never) {
      shape.additional = std::move(others);
    }
    if (const size_t most = shape.properties.size() + 1;
        shape.additional && keywords.members.min > static_cast<int64_t>(most)) {
      // What is written might have a key twice.
      return SchemaError({nullptr, pointer + "/minProperties"}, StatusCode::kUnsupported,
                         "more than one property beyond those named cannot be enforced");
    }
    return shape;
  }

  Result<NodeId> DefineObject(const Conjunction& conjunction, const Keywords& keywords,
                              const std::string& pointer) {
    CACHALOT_ASSIGN_OR_RETURN(const ObjectShape shape, ShapeOf(conjunction, keywords, pointer));
    const Limits& limits = keywords.members;
    const size_t num_properties = shape.properties.size();
    // Properties written so far are counted as far as it matters: none or some, or all.
    const bool counts =
        limits.min > 1 || (limits.max != kUnbounded &&
                           (shape.additional || limits.max < static_cast<int64_t>(num_properties)));
    const size_t top = counts ? num_properties : std::min<size_t>(num_properties, 1);
    const NodeId close = builder_.Literal("}", builder_.Return());
    const NodeId end = text_.Blank(close);
    const auto comma = [&](size_t count, NodeId next) {
      return count == 0 ? next : builder_.Literal(",", text_.Blank(next));
    };

    std::optional<RuleId> other;
    if (shape.additional) {
      CACHALOT_ASSIGN_OR_RETURN(other, DefineOther(shape, pointer));
    }
    std::optional<RuleId> more;
    if (other) {
      more = Declare(pointer);
      builder_.DefineRule(
          *more, builder_.Literal(",", text_.Blank(builder_.Call(*other, builder_.Return()))));
    }
    const auto after_all = [&](size_t written) {
      const auto count = static_cast<int64_t>(written);
      const NodeId stop = written == 0 ? close : end;
      const NodeId enough = count >= limits.min ? stop : builder_.Nothing();
      if (!other || count >= limits.max || limits.min - count > 1) {
        return count <= limits.max ? enough : builder_.Nothing();
      }
      const int64_t most = limits.max == kUnbounded ? kUnbounded : limits.max - count - 1;
      const NodeId rest = builder_.Repeat(*more, 0, most, end);
      return builder_.Split({comma(written, builder_.Call(*other, rest)), enough});
    };

    std::vector<NodeId> after;  // by properties written
    for (size_t count = 0; count <= top; ++count) {
      after.push_back(after_all(count));
    }
    for (size_t i = num_properties; i-- > 0 && !builder_.is_full();) {
      const Property& property = shape.properties[i];
      const std::string place = PointerTo(pointer + "/properties", property.name);
      const RuleId member = Declare(place);
      builder_.DefineRule(
          member, builder_.Literal(DumpJson(OrderedJson(property.name)) + ":",
                                   text_.Blank(Value(property.value, place, builder_.Return()))));
      std::vector<NodeId> before;
      for (size_t count = 0; count <= std::min(top, i); ++count) {
        const NodeId written = comma(count, builder_.Call(member, after[std::min(count + 1, top)]));
        before.push_back(property.is_required ? written : builder_.Split({written, after[count]}));
      }
      after = std::move(before);
    }
    if (builder_.is_full()) {
      return builder_.Nothing();
    }
    return builder_.Literal("{", text_.Blank(after.front()));
  }

  // A member with a name that is none of the properties'.
  Result<RuleId> DefineOther(const ObjectShape& shape, const std::string& pointer) {
    const std::string place = pointer + "/additionalProperties";
    const RuleId rule = Declare(place);
    const NodeId value =
        builder_.Literal(":", text_.Blank(Value(*shape.additional, place, builder_.Return())));
    std::vector<std::string> names;
    for (const Property& property : shape.properties) {
      names.push_back(property.name);
    }
    if (names.empty()) {
      builder_.DefineRule(rule, text_.String(0, kUnbounded, value));
      return rule;
    }
    const auto others = TextSet::AllBut(names);
    if (!others) {
      return SchemaError({nullptr, place}, others.error().code, "{}", others.error().message);
    }
    builder_.DefineRule(rule, text_.String(*others, value));
    return rule;
  }

  const OrderedJson& document_;
  SchemaReader reader_;
  GrammarBuilder builder_;
  JsonText text_;
  std::map<std::set<const OrderedJson*>, RuleId> rules_;
  std::deque<Undefined> todo_;
  size_t num_compared_ = 0;
};

}  // namespace

Result<Grammar> GrammarOfJsonSchema(const OrderedJson& schema) {
  return SchemaCompiler(schema).Compile(nullptr);
}

Result<Grammar> GrammarOfJsonSchemaOr(const OrderedJson& schema, const InsteadOfJson& instead) {
  return SchemaCompiler(schema).Compile(instead);
}

}  // namespace cachalot
