#include "grammar/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "grammar/test_vocabulary.h"
#include "grammar/text_set.h"

namespace cachalot {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

OrderedJson Parsed(std::string_view text) {
  auto json = ParseOrderedJson(text, "schema");
  EXPECT_TRUE(json) << text << ": " << json.error().message;
  return json ? *json : OrderedJson();
}

const TestVocabulary& Bytes() {
  static const TestVocabulary vocabulary;
  return vocabulary;
}

struct Example {
  const char* schema;
  std::vector<const char*> accepted;
  std::vector<const char*> rejected;
};

class Schemas : public testing::TestWithParam<Example> {};

TEST_P(Schemas, LetPassWhatIsValid) {
  const Example& example = GetParam();
  const OrderedJson schema = Parsed(example.schema);
  auto grammar = GrammarOfJsonSchema(schema);
  ASSERT_TRUE(grammar) << example.schema << ": " << grammar.error().message;
  const auto compiled = Compile(*std::move(grammar), Bytes());
  for (const char* text : example.accepted) {
    EXPECT_TRUE(Accepts(compiled, text)) << example.schema << " should accept " << text;
  }
  for (const char* text : example.rejected) {
    EXPECT_FALSE(Accepts(compiled, text)) << example.schema << " should reject " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, Schemas,
    testing::Values(
        Example{R"(true)",
                {"1", "-0.5e3", "null", "true", R"("a")", "[]", "{}", R"([1, {"a": [null]}])",
                 "[\n  1,\n\t2\n]", "[ ]", R"({"":{}})"},
                {"",        "1,",       "[1,]",     "01",    "+1",     ".5",      "1.",
                 "1e",      "1e999",    "nul",      "[1 2]", " 1",     "1 ",      "[  1]",
                 "[\n\n1]", R"({"a"})", R"({a:1})", "'a'",   "\"\n\"", R"("\x")", "NaN"}},
        Example{R"({})", {"1", "{}"}, {}},
        Example{R"({"title": "t", "description": "d", "default": 3, "x-unknown": 1})", {"[]"}, {}},
        Example{R"({"type": "null"})", {"null"}, {"0", "\"null\"", "nullx"}},
        Example{R"({"type": "boolean"})", {"true", "false"}, {"True", "0"}},
        Example{
            R"({"type": ["string", "null"], "minLength": 1})", {R"("a")", "null"}, {R"("")", "1"}},
        Example{R"({"type": "integer"})",
                {"0", "-1", "999999999999999999"},
                {"-0", "01", "1.0", "1e2", "1000000000000000000"}},
        Example{R"({"type": "integer", "multipleOf": 1})", {"3"}, {"3.5"}},
        Example{R"({"type": "number"})",
                {"0", "-1.5", "1e10", "1.25E-3", "0.12345678901234567"},
                {"Infinity", "1e100", "--1", "0.123456789012345678"}},
        Example{R"({"const": {"a": [1, "x"]}})", {R"({"a":[1,"x"]})"}, {R"({"a":[1]})"}},
        Example{R"({"enum": ["a", "ab", "b", 1, 12, null]})",
                {R"("a")", R"("ab")", "1", "12", "null"},
                {R"("abc")", "123", "2"}},
        Example{R"({"type": "string", "enum": ["a", 1], "maxLength": 3})", {R"("a")"}, {"1"}},
        Example{R"({"enum": ["a", "bb", "ccc"], "minLength": 2, "pattern": "b|c"})",
                {R"("bb")", R"("ccc")"},
                {R"("a")"}},
        Example{R"({"enum": [1, 2, 3, "x"], "minimum": 2})", {"2", "3", R"("x")"}, {"1"}},
        Example{R"({"enum": ["ü\"\n"]})", {"\"ü\\\"\\n\""}, {"\"ü\""}}));

INSTANTIATE_TEST_SUITE_P(
    Strings, Schemas,
    testing::Values(
        Example{R"({"type": "string"})",
                {R"("")", R"("a b")", "\"é中😀\"", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9")",
                 R"("\ud83d\uDE00")"},
                {"\"", "\"\x01\"", R"("\ud83d")", R"("\ude00")", R"("\u12g4")", "\"\xC3\"",
                 "\"\xED\xA0\x80\"", "\"\xC0\x80\"", "\"\xF5\x80\x80\x80\""}},
        Example{R"({"type": "string", "minLength": 2, "maxLength": 3})",
                {R"("ab")", "\"é中😀\"", R"("a\u00e9")", R"("\ud83d\ude00\n")"},
                {R"("a")", R"("abcd")", "\"😀\"", R"("\ud83d\ude00")"}},
        Example{R"({"type": "string", "maxLength": 0})", {R"("")"}, {R"("a")"}},
        Example{
            R"({"type": "string", "minLength": 3})", {R"("abc")", R"("abcdefgh")"}, {R"("ab")"}},
        Example{R"({"type": "string", "pattern": "^[a-z]+\\d{2,3}$"})",
                {R"("a12")", R"("abc123")"},
                {R"("12")", R"("a1")", R"("a1234")", R"("A12")", R"("a12 ")"}},
        Example{R"({"type": "string", "pattern": "ab"})",
                {R"("ab")", R"("xxaby\n")", R"("aab")", "\"é😀ab中\""},
                {R"("ba")", R"("")", R"("a b")"}},
        Example{R"({"type": "string", "pattern": "^a", "maxLength": 3})",
                {R"("a")", R"("abc")"},
                {R"("abcd")", R"("b")"}},
        Example{R"({"type": "string", "pattern": "^[^a\"]$"})",
                {R"("b")", "\"中\"", R"("\n")", R"("\\")", R"("\u0001")"},
                {R"("a")", R"("\"")", R"("")", R"("bb")"}},
        Example{R"({"type": "string", "pattern": "[\\u0400-\\u04FF]$"})",
                {"\"xж\""},
                {"\"x\"", "\"жx\""}},
        Example{R"({"type": "string", "format": "date"})",
                {R"("2024-02-28")", R"("1999-12-31")"},
                {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")"}},
        Example{R"({"type": "string", "format": "date-time"})",
                {R"("2024-02-28T23:59:59Z")", R"("2024-02-28T00:00:00.25+01:00")"},
                {R"("2024-02-28")", R"("2024-02-28T24:00:00Z")"}},
        Example{R"({"type": "string", "format": "uuid"})",
                {R"("123e4567-e89b-12d3-a456-426614174000")"},
                {R"("123e4567")"}},
        Example{R"({"type": "string", "format": "ipv4"})",
                {R"("127.0.0.1")", R"("255.255.255.255")"},
                {R"("256.0.0.1")", R"("1.2.3")"}},
        Example{R"({"type": "string", "format": "email"})",
                {R"("a.b@example.org")"},
                {R"("a@b")", R"("@example.org")", R"("a..b@example.org")"}},
        Example{R"({"type": "string", "format": "uri"})",
                {R"("https://example.org/a?b=c#d")"},
                {R"("example")", R"("https://a b")"}},
        Example{R"({"type": "string", "format": "no such"})", {R"("anything")"}, {"1"}}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, Schemas,
    testing::Values(
        Example{R"({"type": "integer", "minimum": -12, "maximum": 105})",
                {"-12", "-9", "-1", "0", "7", "99", "100", "105"},
                {"-13", "106", "-0", "200", "007", "1000"}},
        Example{R"({"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 1000})",
                {"10", "999", "500"},
                {"9", "1000"}},
        Example{R"({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 3.0})",
                {"1", "2"},
                {"0", "3"}},
        Example{R"({"type": "integer", "maximum": -5})", {"-5", "-60"}, {"-4", "0", "5"}},
        Example{R"({"type": "integer", "minimum": 1e30, "maximum": 1e40, "enum": [1e35]})",
                {"1e+35"},
                {"1"}},
        Example{R"({"type": "number", "minimum": 0, "maximum": 1})",
                {"0", "0.5", "1", "1.0", "0.000001", "0.0", "1.000000"},
                {"1.1", "-0.1", "2", "1.000001", "-0"}},
        Example{R"({"type": "number", "exclusiveMinimum": 0})",
                {"0.1", "0.000001", "17.25", "999999999.5"},
                {"0", "0.0", "0.000000", "-1"}},
        Example{R"({"type": "number", "minimum": 0.1, "exclusiveMaximum": 0.3})",
                {"0.1", "0.10", "0.2", "0.29", "0.299999"},
                {"0", "0.09", "0.3", "0.300", "1.2"}},
        Example{R"({"type": "number", "minimum": -2.5, "maximum": -0.25})",
                {"-2.5", "-2.499", "-1", "-0.25"},
                {"-2.51", "-0.2", "0", "-3", "2"}}));

INSTANTIATE_TEST_SUITE_P(
    Arrays, Schemas,
    testing::Values(
        Example{R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
                {"[1]", "[1,2]", "[1, 2,\n3]", "[1 ]"},
                {"[]", "[1,2,3,4]", "[\"a\"]", "[1,]"}},
        Example{R"({"type": "array", "maxItems": 0})", {"[]", "[ ]"}, {"[1]"}},
        Example{R"({"type": "array", "minItems": 2})", {"[1,2]", "[1,2,{}]"}, {"[]", "[1]"}},
        Example{R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
                    "items": false, "minItems": 1})",
                {"[1]", R"([1,"a"])"},
                {"[]", R"(["a"])", R"([1,"a",2])"}},
        Example{R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"const": 0},
                    "maxItems": 3})",
                {"[]", "[5]", "[5,0]", "[5,0,0]"},
                {"[5,1]", "[5,0,0,0]"}},
        Example{R"({"type": "array", "items": {"type": "array", "items": {"type": "null"}}})",
                {"[]", "[[],[null,null]]"},
                {"[null]", "[[1]]"}},
        Example{R"({"prefixItems": [true, true, {"const": 1}], "maxItems": 2})",
                {"[5,6]"},
                {"[5,6,1]", "1"}},
        Example{
            R"({"type": "array", "uniqueItems": false, "items": {"const": 1}})", {"[1,1]"}, {}}));

INSTANTIATE_TEST_SUITE_P(
    Objects, Schemas,
    testing::Values(
        Example{R"({"type": "object", "properties": {"a": {"type": "integer"},
                    "b": {"type": "string"}, "c": {"type": "null"}}, "required": ["b"]})",
                {R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({ "a": 1, "b": "x", "c": null })",
                 "{\n  \"b\": \"x\"\n}"},
                {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})",
                 R"({"b":"x","b":"y"})", R"({,"b":"x"})", R"({"b":"x",})", R"({"b" :"x"})"}},
        Example{R"({"type": "object"})", {"{}", R"({"a":1,"b":{"c":[]}})"}, {"[]", R"({"a":1,})"}},
        Example{R"({"type": "object", "propertyNames": {"type": "string"}})", {R"({"a":1})"}, {}},
        Example{R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a":1})"}},
        Example{R"({"type": "object", "additionalProperties": {"type": "integer"}})",
                {"{}", R"({"a":1,"é\n":2})"},
                {R"({"a":"b"})"}},
        Example{R"({"properties": {"ab": {"const": 1}}, "additionalProperties": {"const": 2}})",
                {"{}", R"({"ab":1})", R"({"ab":1,"a":2,"abc":2})", R"({"":2})", R"({"b":2})"},
                {R"({"ab":2})", R"({"a":2,"ab":2})", R"({"\u0061b":2})", "1"}},
        Example{R"({"type": "object", "required": ["k"]})",
                {R"({"k":1})", R"({"k":1,"l":2})"},
                {"{}", R"({"l":2})"}},
        Example{R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
                    "minProperties": 1, "maxProperties": 2})",
                {R"({"a":1})", R"({"c":1})", R"({"a":1,"c":2})"},
                {"{}", R"({"a":1,"b":2,"c":3})"}},
        Example{R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
                    "minProperties": 2})",
                {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
                {"{}", R"({"b":1})"}},
        Example{R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
                {R"({"a":1})", R"({"a":1,"b":1})"},
                {"{}", R"({"a":1,"b":1,"c":1})"}},
        Example{R"({"properties": {"a\"/~": {"const": 1}, "off": false}})",
                {R"({"a\"/~":1})", "{}"},
                {R"({"off":1})"}}));

INSTANTIATE_TEST_SUITE_P(
    Combinations, Schemas,
    testing::Values(
        Example{R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
                {"12", R"("a")"},
                {R"("ab")", "null"}},
        Example{R"({"type": "object", "properties": {"a": {}, "b": {}},
                    "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
                {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
                {"{}"}},
        Example{R"({"oneOf": [{"type": "integer"}, {"type": "string"}, {"const": null}]})",
                {"1", R"("")", "null"},
                {"true"}},
        Example{R"({"oneOf": [
                  {"type": "object", "properties": {"t": {"const": "a"}, "x": {}}, "required": ["t"]},
                  {"type": "object", "properties": {"t": {"enum": ["b", "c"]}}, "required": ["t"]}]})",
                {R"({"t":"a","x":1})", R"({"t":"c"})"},
                {R"({"t":"d"})", R"({"t":"b","x":1})"}},
        Example{R"({"oneOf": [
                  {"properties": {"a": {}}, "required": ["a"], "additionalProperties": false},
                  {"properties": {"b": {}}, "required": ["b"], "additionalProperties": false}]})",
                {R"({"a":1})", R"({"b":1})"},
                {R"({"a":1,"b":1})"}},
        Example{R"({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]})",
                {"3", "5"},
                {"2", "6"}},
        Example{R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                              {"properties": {"b": {"type": "null"}, "a": {"minimum": 1}}}]})",
                {R"({"a":1})", R"({"a":2,"b":null})"},
                {R"({"a":0})", R"({"b":null})"}},
        Example{R"({"allOf": [{"pattern": "^a"}, {"pattern": "b$"}], "type": "string",
                    "minLength": 3})",
                {R"("axb")"},
                {R"("ab")", R"("xab")"}},
        Example{R"({"anyOf": [false, {"const": 1}]})", {"1"}, {"2"}},
        Example{R"({"anyOf": [{"type": "string"}, {"type": "integer"}], "maximum": 3})",
                {"3", R"("a")"},
                {"4"}}));

INSTANTIATE_TEST_SUITE_P(
    References, Schemas,
    testing::Values(
        Example{R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}})", {"1"}, {"null"}},
        Example{R"({"$ref": "#/definitions/a~1b%25", "maximum": 2,
                    "definitions": {"a/b%": {"type": "integer"}}})",
                {"1"},
                {"3"}},
        Example{R"({"type": "object", "properties": {"v": {"type": "integer"},
                    "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["v"]})",
                {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
                {R"({"v":1,"next":{}})"}},
        Example{R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array",
                    "items": {"$ref": "#/$defs/tree"}}}})",
                {"[]", "[[],[[[]]]]"},
                {"[1]"}},
        Example{R"({"$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/b"}}},
                              "b": {"properties": {"a": {"$ref": "#/$defs/a"}}}},
                    "$ref": "#/$defs/a"})",
                {"{}", R"({"b":{"a":{"b":{}}}})"},
                {R"({"a":{}})"}}));

struct Refusal {
  const char* schema;
  const char* place;
  const char* what;
};

class RefusedSchemas : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedSchemas, AreNamed) {
  const OrderedJson schema = Parsed(GetParam().schema);
  const auto grammar = GrammarOfJsonSchema(schema);
  ASSERT_FALSE(grammar) << GetParam().schema;
  EXPECT_THAT(grammar.error().message, StartsWith(std::string(GetParam().place) + ": "));
  EXPECT_THAT(grammar.error().message, HasSubstr(GetParam().what));
  EXPECT_EQ(grammar.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    NotUnderstood, RefusedSchemas,
    testing::Values(
        Refusal{R"({"not": {}})", "#/not", "cannot be enforced"},
        Refusal{R"({"properties": {"a/b": {"if": {}}}})", "#/properties/a~1b/if", "enforced"},
        Refusal{R"({"items": {"uniqueItems": true}})", "#/items/uniqueItems", "enforced"},
        Refusal{R"({"contains": {}})", "#/contains", "enforced"},
        Refusal{R"({"patternProperties": {}})", "#/patternProperties", "enforced"},
        Refusal{R"({"propertyNames": {"maxLength": 3}})", "#/propertyNames", "enforced"},
        Refusal{R"({"dependentRequired": {}})", "#/dependentRequired", "enforced"},
        Refusal{R"({"unevaluatedProperties": false})", "#/unevaluatedProperties", "enforced"},
        Refusal{R"({"type": "number", "multipleOf": 0.1})", "#/multipleOf", "enforced"},
        Refusal{R"({"type": "integer", "multipleOf": 5})", "#/multipleOf", "enforced"},
        Refusal{R"({"$dynamicRef": "#a"})", "#/$dynamicRef", "enforced"},
        Refusal{R"({"$ref": "https://example.org/a"})", "#/$ref", "leads out"},
        Refusal{R"({"$ref": "#/$defs/none"})", "#/$ref", "leads nowhere"},
        Refusal{R"({"$ref": 1})", "#/$ref", "expected a reference"},
        Refusal{R"({"$ref": "#"})", "#", "refers to itself"},
        Refusal{R"({"allOf": [{"$ref": "#/allOf/0"}]})", "#/allOf/0", "refers to itself"},
        Refusal{R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "#/anyOf", "begins with itself"},
        Refusal{R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "#/oneOf", "0 and 1"},
        Refusal{R"({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})", "#/oneOf",
                "0 and 1"},
        Refusal{R"({"type": "object", "minProperties": 2})", "#/minProperties", "enforced"},
        Refusal{R"({"pattern": "(?=a)."})", "#/pattern", "at byte 3"},
        Refusal{R"({"pattern": "\\bword"})", "#/pattern", "not understood"},
        Refusal{R"({"pattern": "(a)\\1"})", "#/pattern", "not understood"},
        Refusal{R"({"pattern": "a{1,1000000}"})", "#/pattern", "too complex"},
        Refusal{R"({"pattern": "^(a|b)*a(a|b){30}$"})", "#/pattern", "too complex"},
        Refusal{R"({"pattern": "^a", "maxLength": 100000})", "#", "too complex"}));

INSTANTIATE_TEST_SUITE_P(
    NoSchema, RefusedSchemas,
    testing::Values(Refusal{"1", "#", "expected a schema"},
                    Refusal{R"({"type": "text"})", "#/type", "expected"},
                    Refusal{R"({"type": []})", "#/type", "one type"},
                    Refusal{R"({"minLength": -1})", "#/minLength", "integer from 0"},
                    Refusal{R"({"minimum": "1"})", "#/minimum", "a number"},
                    Refusal{R"({"exclusiveMinimum": true})", "#/exclusiveMinimum", "a number"},
                    Refusal{R"({"required": "a"})", "#/required", "list of names"},
                    Refusal{R"({"required": [1]})", "#/required/0", "name of a property"},
                    Refusal{R"({"properties": []})", "#/properties", "object of schemas"},
                    Refusal{R"({"properties": {"a": 1}})", "#/properties/a", "expected a schema"},
                    Refusal{R"({"items": [{}]})", "#/items", "expected a schema"},
                    Refusal{R"({"prefixItems": {}})", "#/prefixItems", "list of schemas"},
                    Refusal{R"({"anyOf": []})", "#/anyOf", "one schema"},
                    Refusal{R"({"pattern": "["})", "#/pattern", "class without an end"},
                    Refusal{R"({"pattern": "a**"})", "#/pattern", "quantifier"},
                    Refusal{R"({"format": 1})", "#/format", "a string"}));

INSTANTIATE_TEST_SUITE_P(
    NothingSatisfies, RefusedSchemas,
    testing::Values(
        Refusal{"false", "#", "nothing satisfies"},
        Refusal{R"({"enum": []})", "#/enum", "one value"},
        Refusal{R"({"type": "string", "enum": [1]})", "#", "no value in common"},
        Refusal{R"({"minLength": 3, "maxLength": 2})", "#/minLength", "3 is more than maxLength 2"},
        Refusal{R"({"type": "integer", "minimum": 3, "maximum": 2})", "#", "bounds of a number"},
        Refusal{R"({"type": "integer", "minimum": 0.2, "maximum": 0.8})", "#", "no integer"},
        Refusal{R"({"type": "integer", "exclusiveMinimum": 3, "maximum": 3})", "#", "bounds"},
        Refusal{R"({"properties": {}, "required": ["a"], "additionalProperties": false})",
                "#/required/0", "none of the properties"},
        Refusal{R"({"type": "object", "properties": {"a": false}, "required": ["a"]})", "#",
                "nothing satisfies"},
        Refusal{R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})", "#",
                "nothing satisfies"},
        Refusal{R"({"type": "array", "minItems": 1, "items": false})", "#", "nothing satisfies"},
        Refusal{R"({"type": "string", "pattern": "^a", "const": "b"})", "#", "nothing satisfies"},
        Refusal{R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "#/allOf/0",
                "nothing satisfies"},
        Refusal{R"({"type": "string", "pattern": "^ab$", "maxLength": 1})", "#", "no string"}));

TEST(Schemas, OfAnyObjectNestAndAreBounded) {
  const auto compiled = Compile(AnyJsonObject(), Bytes());
  EXPECT_TRUE(Accepts(compiled, R"({"a": [{"b": null}], "c": 1.5})"));
  EXPECT_FALSE(Accepts(compiled, "[]"));
  const auto nested = [](size_t levels) {
    return "{\"a\":" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  EXPECT_TRUE(Accepts(compiled, nested(300)));
  EXPECT_FALSE(Accepts(compiled, nested(600)));
}

TEST(Schemas, ThatNestDeepAreBuiltOrRefused) {
  for (const int levels : {10, 500, 1000}) {
    OrderedJson schema = {{"type", "null"}};
    OrderedJson joined = {{"type", "null"}};
    for (int i = 0; i < levels; ++i) {
      schema = {{"type", "array"}, {"minItems", 1}, {"items", std::move(schema)}};
      joined = {{"allOf", OrderedJson::array({std::move(joined)})}};
    }
    EXPECT_EQ(GrammarOfJsonSchema(schema).has_value(), levels <= 500);
    EXPECT_EQ(GrammarOfJsonSchema(joined).has_value(), levels <= 500);
  }
}

TEST(Schemas, WithHugeBoundsAreSmallOrRefused) {
  for (const char* text :
       {R"({"type": "string", "maxLength": 1000000000})",
        R"({"type": "array", "minItems": 1000000, "items": {"type": "integer"}})",
        R"({"type": "array", "maxItems": 1e300})"}) {
    const auto grammar = GrammarOfJsonSchema(Parsed(text));
    ASSERT_TRUE(grammar) << text << ": " << grammar.error().message;
    EXPECT_LT(grammar->nodes.size(), 2000U);
  }
  OrderedJson large = {{"type", "object"}, {"minProperties", 2}};
  for (int i = 0; i < 2000; ++i) {
    large["properties"]["property " + std::to_string(i)] = {{"type", "string"}};
  }
  const auto grammar = GrammarOfJsonSchema(large);
  ASSERT_FALSE(grammar);
  EXPECT_THAT(grammar.error().message, HasSubstr("too large"));
  large.erase("minProperties");
  EXPECT_TRUE(GrammarOfJsonSchema(large));
}

TEST(Schemas, QuoteLittleOfWhatTheyAreGiven) {
  OrderedJson schema = {{"not", true}};
  for (int i = 0; i < 50; ++i) {
    schema = {{"properties", {{"é\n" + std::string(50, 'x'), std::move(schema)}}}};
  }
  const auto grammar = GrammarOfJsonSchema(schema);
  ASSERT_FALSE(grammar);
  EXPECT_LT(grammar.error().message.size(), 200U);
  EXPECT_EQ(grammar.error().message.find('\n'), std::string::npos);
}

struct PatternExample {
  const char* pattern;
  std::vector<const char*> in;
  std::vector<const char*> out;
};

class Patterns : public testing::TestWithParam<PatternExample> {};

TEST_P(Patterns, MatchAsInEcmaScript) {
  const auto set = TextSet::OfPattern(GetParam().pattern);
  ASSERT_TRUE(set) << GetParam().pattern << ": " << set.error().message;
  for (const char* text : GetParam().in) {
    EXPECT_TRUE(set->Contains(text)) << GetParam().pattern << " should match " << text;
  }
  for (const char* text : GetParam().out) {
    EXPECT_FALSE(set->Contains(text)) << GetParam().pattern << " should not match " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Patterns,
    testing::Values(PatternExample{"", {"", "a"}, {}}, PatternExample{"^$", {""}, {"a"}},
                    PatternExample{"^a|b$", {"ax", "xb", "a", "b"}, {"xa", "bx"}},
                    PatternExample{"^(?:a|bc)*$", {"", "abca"}, {"b", "ac"}},
                    PatternExample{"^(?<x>a)+?$", {"a", "aa"}, {""}},
                    PatternExample{"^a{2}$", {"aa"}, {"a", "aaa"}},
                    PatternExample{"^a{2,}$", {"aa", "aaaa"}, {"a"}},
                    PatternExample{"^a{0,2}b?$", {"", "aab", "b"}, {"aaa", "bb"}},
                    PatternExample{"^(a?){3}$", {"", "aaa"}, {"aaaa"}},
                    PatternExample{"^(a*)*$", {"", "aaa"}, {"b"}},
                    PatternExample{"^.$", {"a", "中", "😀", "\t"}, {"", "\n", "\r", "ab"}},
                    PatternExample{"^[\\w-]+$", {"a-Z_9"}, {"é", "a b"}},
                    PatternExample{"^[^\\d]$", {"a", "中"}, {"5", ""}},
                    PatternExample{"^[a\\-z]$", {"-", "a"}, {"b"}},
                    PatternExample{"^[\\]a]$", {"]", "a"}, {"b"}},
                    PatternExample{"^\\D\\W\\S$", {"a-b"}, {"1-b", "aab", "a- "}},
                    PatternExample{"^\\s$", {" ", "\t", "\xC2\xA0"}, {"a"}},
                    PatternExample{"^\\x41\\u0042\\u{43}\\t\\cA$", {"ABC\t\x01"}, {"ABC"}},
                    PatternExample{"^\\ud83d\\ude00$", {"😀"}, {"x"}},
                    PatternExample{"^a{x$", {"a{x"}, {"a"}},
                    PatternExample{"^\\/\\.\\$\\^$", {"/.$^"}, {"/a$^"}},
                    PatternExample{"ab*c", {"ac", "xabbcx"}, {"ab", "c"}}));

TEST(Patterns, CombineWithLengthsAndExceptions) {
  const auto words = TextSet::OfPattern("^[ab]+$").value();
  const auto short_words = TextSet::Intersection(words, TextSet::OfLength(2, 3).value()).value();
  EXPECT_TRUE(short_words.Contains("ab"));
  EXPECT_FALSE(short_words.Contains("a"));
  EXPECT_FALSE(short_words.Contains("aaaa"));
  const auto others = TextSet::AllBut({"ab", "abc", ""}).value();
  EXPECT_TRUE(others.Contains("a"));
  EXPECT_TRUE(others.Contains("abcd"));
  EXPECT_FALSE(others.Contains("abc"));
  EXPECT_FALSE(others.Contains(""));
  EXPECT_TRUE(TextSet::Intersection(words, TextSet::OfPattern("^c$").value()).value().empty());
}

}  // namespace
}  // namespace cachalot
