// Random schemas, random answers by their grammars: each must be valid, as a validator says that
// shares nothing with the grammars.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>
#include <set>

#include "grammar/json_schema.h"
#include "grammar/test_vocabulary.h"
#include "io/utf8.h"

namespace cachalot {
namespace {

class Validator {
 public:
  explicit Validator(const OrderedJson& root) : root_(root) {}

  bool IsValid(const OrderedJson& value, const OrderedJson& schema) const {
    if (schema.is_boolean()) {
      return schema.get<bool>();
    }
    return std::all_of(schema.items().begin(), schema.items().end(), [&](const auto& item) {
      return Holds(value, item.key(), item.value(), schema);
    });
  }

 private:
  static bool IsOfType(const OrderedJson& value, const std::string& type) {
    return (type == "null" && value.is_null()) || (type == "boolean" && value.is_boolean()) ||
           (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
           (type == "array" && value.is_array()) || (type == "object" && value.is_object());
  }

  bool Holds(const OrderedJson& value, const std::string& key, const OrderedJson& what,
             const OrderedJson& schema) const {
    const auto valid = [&](const OrderedJson& other) { return IsValid(value, other); };
    if (key == "type") {
      return what.is_string() ? IsOfType(value, what)
                              : std::any_of(what.begin(), what.end(), [&](const auto& type) {
                                  return IsOfType(value, type);
                                });
    }
    if (key == "const") {
      return value == what;
    }
    if (key == "enum") {
      return std::find(what.begin(), what.end(), value) != what.end();
    }
    if (key == "$ref") {
      return valid(root_.at("$defs").at(what.get<std::string>().substr(8)));
    }
    if (key == "anyOf") {
      return std::any_of(what.begin(), what.end(), valid);
    }
    if (key == "oneOf") {
      return std::count_if(what.begin(), what.end(), valid) == 1;
    }
    if (key == "allOf") {
      return std::all_of(what.begin(), what.end(), valid);
    }
    if (value.is_number()) {
      return key == "minimum"            ? value >= what
             : key == "maximum"          ? value <= what
             : key == "exclusiveMinimum" ? value > what
             : key == "exclusiveMaximum" ? value < what
                                         : true;
    }
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      const auto length = std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      });
      return key == "minLength"   ? length >= what.get<int>()
             : key == "maxLength" ? length <= what.get<int>()
             : key == "pattern"   ? std::regex_search(text, std::regex(what.get<std::string>()))
                                  : true;
    }
    const auto size = static_cast<int>(value.size());
    return value.is_array()    ? HoldsOfArray(value, key, what, schema, size)
           : value.is_object() ? HoldsOfObject(value, key, what, schema, size)
                               : true;
  }

  bool HoldsOfArray(const OrderedJson& value, const std::string& key, const OrderedJson& what,
                    const OrderedJson& schema, int size) const {
    const size_t placed = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      if (key == "prefixItems" && i < placed && !IsValid(value[i], what[i])) {
        return false;
      }
      if (key == "items" && i >= placed && !IsValid(value[i], what)) {
        return false;
      }
    }
    return key == "minItems" ? size >= what.get<int>()
                             : key != "maxItems" || size <= what.get<int>();
  }

  bool HoldsOfObject(const OrderedJson& value, const std::string& key, const OrderedJson& what,
                     const OrderedJson& schema, int size) const {
    for (const auto& [name, member] : value.items()) {
      const bool is_named = schema.contains("properties") && schema["properties"].contains(name);
      if (key == "properties" && is_named && !IsValid(member, what[name])) {
        return false;
      }
      if (key == "additionalProperties" && !is_named && !IsValid(member, what)) {
        return false;
      }
    }
    if (key == "required") {
      return std::all_of(what.begin(), what.end(), [&](const auto& name) {
        return value.contains(name.template get_ref<const std::string&>());
      });
    }
    return key == "minProperties" ? size >= what.get<int>()
                                  : key != "maxProperties" || size <= what.get<int>();
  }

  const OrderedJson& root_;
};

class RandomSchema {
 public:
  explicit RandomSchema(std::mt19937& random) : random_(random) {}

  OrderedJson Make() {
    OrderedJson schema = {{"allOf", OrderedJson::array({Schema(3)})}};
    OrderedJson& definitions = schema["$defs"] = OrderedJson::object();
    for (const char* name : {"a", "b"}) {
      definitions[name] = Schema(2);
    }
    return schema;
  }

 private:
  int Below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  bool Often() { return Below(3) != 0; }

  OrderedJson Schema(int depth) {
    switch (Below(depth > 0 ? 12 : 6)) {
      case 0:
        return {{"type", Below(2) ? "null" : "boolean"}};
      case 1:
        return Integer();
      case 2:
        return String();
      case 3:
        return Number();
      case 4:
        return {{"enum", {"x", "xy", 1, 12, nullptr, {{"k", "é"}}, "\"\\"}}};
      case 5:
        return Below(2) ? OrderedJson(true) : OrderedJson{{"const", Below(30)}};
      case 6:
      case 7:
        return Object(depth);
      case 8:
        return Array(depth);
      case 9:
        return {{"anyOf", {Schema(depth - 1), Schema(depth - 1)}}};
      case 10:
        return {{"$ref", Below(2) ? "#/$defs/a" : "#/$defs/b"}};
      default:
        return Below(2) ? OrderedJson{{"oneOf", {Schema(depth - 1), Schema(depth - 1)}}}
                        : OrderedJson{{"allOf", {Object(depth - 1), Object(depth - 1)}}};
    }
  }

  OrderedJson Integer() {
    OrderedJson schema = {{"type", "integer"}};
    const int least = Below(2000) - 1000;
    if (Often()) {
      schema[Below(2) ? "minimum" : "exclusiveMinimum"] = least;
    }
    if (Often()) {
      schema[Below(2) ? "maximum" : "exclusiveMaximum"] = least + 2 + Below(1 << Below(15));
    }
    return schema;
  }

  OrderedJson Number() {
    OrderedJson schema = {{"type", "number"}};
    const double least = (Below(2000) - 1000) / 128.0;
    if (Often()) {
      schema[Below(2) ? "minimum" : "exclusiveMinimum"] = least;
    }
    if (Often()) {
      schema[Below(2) ? "maximum" : "exclusiveMaximum"] = least + 0.1 + Below(300) / 100.0;
    }
    return schema;
  }

  OrderedJson String() {
    OrderedJson schema = {{"type", "string"}};
    if (Below(3) == 0) {
      constexpr const char* kPatterns[] = {"^[a-c]{1,3}$", "a+b",        "^(x|yz)*$", "^\\d+-\\w*$",
                                           "^[^a-z]*$",    "^$|^a[bc]b", "q$"};
      schema["pattern"] = kPatterns[Below(7)];
      return schema;
    }
    const int least = Below(6);
    if (Often()) {
      schema["minLength"] = least;
    }
    if (Often()) {
      schema["maxLength"] = least + Below(10);
    }
    return schema;
  }

  OrderedJson Array(int depth) {
    OrderedJson schema = {{"type", "array"}};
    const int least = Below(3);
    if (Often()) {
      schema["items"] = Schema(depth - 1);
    }
    if (Below(3) == 0) {
      schema["prefixItems"] = {Schema(depth - 1), Schema(0)};
    }
    if (Often()) {
      schema["minItems"] = least;
    }
    if (Often()) {
      schema["maxItems"] = least + Below(4);
    }
    return schema;
  }

  OrderedJson Object(int depth) {
    OrderedJson schema = {{"type", "object"}};
    constexpr const char* kNames[] = {"a", "ab", "b", "é\"", ""};
    const int num_names = Below(5);
    for (int i = 0; i < num_names; ++i) {
      schema["properties"][kNames[i]] = Schema(depth - 1);
      if (Below(3) == 0) {
        schema["required"].push_back(kNames[i]);
      }
    }
    if (Below(3) == 0) {
      schema["additionalProperties"] = Below(3) == 0 ? OrderedJson(false) : Schema(depth - 1);
    }
    if (Below(4) == 0) {
      schema["minProperties"] = Below(3);
    }
    if (Below(4) == 0) {
      schema["maxProperties"] = 1 + Below(4);
    }
    return schema;
  }

  std::mt19937& random_;
};

// An answer by random choices, which after a while takes every way out; nothing where that was not
// enough.
std::optional<std::string> RandomAnswer(const std::shared_ptr<CompiledGrammar>& grammar,
                                        const TestVocabulary& test, std::mt19937& random) {
  constexpr std::string_view kWaysOut = "}]\"n0";
  GrammarConstraint constraint(grammar);
  std::string text;
  for (int step = 0; step < 1500; ++step) {
    const auto mask = constraint.Allowed();
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < test.vocabulary->size(); ++id) {
      if (IsAllowed(mask, id)) {
        allowed.push_back(id);
      }
    }
    EXPECT_FALSE(allowed.empty()) << "a dead end after " << text;
    if (allowed.empty()) {
      return std::nullopt;
    }
    const bool leaves = step > 100 || random() % 4 == 0;
    if (leaves && IsAllowed(mask, test.stop)) {
      return text;
    }
    int32_t id = allowed[random() % allowed.size()];
    for (const char way : kWaysOut) {
      if (leaves && random() % 8 != 0 && IsAllowed(mask, way)) {
        id = way;
        break;
      }
    }
    if (id == test.stop) {
      return text;
    }
    text += test.bytes[static_cast<size_t>(id)];
    if (!constraint.Accept(id)) {
      return text;
    }
  }
  return std::nullopt;
}

TEST(RandomSchemas, HaveNoDeadEndsAndNoInvalidAnswers) {
  std::mt19937 random(11);
  const TestVocabulary test({"{\"",  "\":", "\": ",  ",\"",   "},",  "[1",  "true",         "null",
                             "12",   "ab",  "abc\"", "\\u00", "\\n", "é",   "\xF0\x9F\x98", "  ",
                             "\n  ", "-1",  "0.",    "e1",    "xyz", "\"]", "\"}"});
  int built = 0;
  int unfinished = 0;
  std::set<std::string> answers;
  for (int round = 0; round < 420; ++round) {
    const OrderedJson schema = RandomSchema(random).Make();
    auto grammar = GrammarOfJsonSchema(schema);
    if (!grammar) {
      EXPECT_FALSE(grammar.error().message.empty());
      continue;
    }
    ++built;
    const auto compiled = Compile(*std::move(grammar), test);
    for (int i = 0; i < 3; ++i) {
      const auto answer = RandomAnswer(compiled, test, random);
      if (!answer) {
        ++unfinished;
        continue;
      }
      answers.insert(*answer);
      const auto value = ParseOrderedJson(*answer, "answer");
      ASSERT_TRUE(value) << DumpJson(schema) << "\n" << *answer << "\n" << value.error().message;
      ASSERT_FALSE(FindInvalidUtf8(*answer)) << *answer;
      ASSERT_TRUE(Validator(schema).IsValid(*value, schema)) << DumpJson(schema) << "\n" << *answer;
    }
  }
  EXPECT_GT(built, 250);
  EXPECT_LT(unfinished, built / 20);
  EXPECT_GT(answers.size(), 350U);
}

TEST(RandomSchemas, OfDamagedKeywordsAreRefusedOrGiveAnswers) {
  constexpr const char* kKeywords[] = {"type",      "enum",          "const",
                                       "anyOf",     "oneOf",         "allOf",
                                       "$ref",      "items",         "prefixItems",
                                       "minItems",  "maxItems",      "properties",
                                       "required",  "minProperties", "maxProperties",
                                       "minLength", "pattern",       "additionalProperties",
                                       "maxLength", "minimum",       "maximum",
                                       "format",    "not",           "multipleOf"};
  std::mt19937 random(12);
  const auto below = [&](size_t bound) { return random() % bound; };
  std::function<OrderedJson(int)> any = [&](int depth) -> OrderedJson {
    constexpr const char* kTexts[] = {"string", "object",       "integer", "#",   "#/items",
                                      "^a*$",   "[a-z]{2,3}|b", "date",    "((b", "a"};
    switch (below(depth > 0 ? 9 : 5)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<int>(below(5)) - 1;
      case 3:
        return 1e18 * static_cast<double>(below(3)) - 0.5;
      case 4:
        return kTexts[below(std::size(kTexts))];
      case 5: {
        OrderedJson list = OrderedJson::array();
        for (size_t i = below(4); i > 0; --i) {
          list.push_back(any(depth - 1));
        }
        return list;
      }
      default: {
        OrderedJson object = OrderedJson::object();
        for (size_t i = below(5); i > 0; --i) {
          object[kKeywords[below(std::size(kKeywords))]] = any(depth - 1);
        }
        return object;
      }
    }
  };
  const TestVocabulary test;
  int built = 0;
  for (int round = 0; round < 3000; ++round) {
    const OrderedJson schema = any(4);
    auto grammar = GrammarOfJsonSchema(schema);
    if (!grammar) {
      EXPECT_EQ(grammar.error().message.find('\n'), std::string::npos);
    } else if (++built % 10 == 0) {
      RandomAnswer(Compile(*std::move(grammar), test), test, random);
    }
  }
  EXPECT_GT(built, 100);
}

}  // namespace
}  // namespace cachalot
