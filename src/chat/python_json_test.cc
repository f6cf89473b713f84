#include "chat/python_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace cachalot {
namespace {

using testing::HasSubstr;

struct RoundCase {
  const char* in;
  const char* out;  // what json.dumps(json.loads(in), ensure_ascii=False) gives
};

constexpr RoundCase kRoundCases[] = {
    // numbers
    {"1.0", "1.0"},
    {"1.10", "1.1"},
    {"-0.0", "-0.0"},
    {"0", "0"},
    {"-0", "0"},
    {"0.0001", "0.0001"},
    {"0.00001", "1e-05"},
    {"1.5e-7", "1.5e-07"},
    {"1e15", "1000000000000000.0"},
    {"1e16", "1e+16"},
    {"1e22", "1e+22"},
    {"123456789012345680.0", "1.2345678901234568e+17"},
    {"1234567890123456.7", "1234567890123456.8"},
    {"0.1", "0.1"},
    {"100.0", "100.0"},
    {"12.5E1", "125.0"},
    {"5e-324", "5e-324"},
    {"1.7976931348623157e308", "1.7976931348623157e+308"},
    {"1e999", "Infinity"},
    {"-1e999", "-Infinity"},
    {"NaN", "NaN"},
    {"[Infinity, -Infinity]", "[Infinity, -Infinity]"},
    {"9223372036854775807", "9223372036854775807"},
    {"18446744073709551616", "18446744073709551616"},
    {"123456789012345678901234567890", "123456789012345678901234567890"},
    {"-123456789012345678901234567890", "-123456789012345678901234567890"},
    // strings
    {R"("a\"\\\/\b\f\n\r\t")", R"("a\"\\/\b\f\n\r\t")"},
    {R"("\u0000\u001f\u007f")", "\"\\u0000\\u001f\x7f\""},
    {R"("\u00e9\u4e2d\ud83d\ude00")", "\"é中😀\""},
    {R"("\ud800")", "\"\xEF\xBF\xBD\""},
    {R"("\udc00x")", "\"\xEF\xBF\xBDx\""},
    {R"("\ud800\u0041")",
     "\"\xEF\xBF\xBD"
     "A\""},
    {R"("é中😀")", "\"é中😀\""},
    // shapes
    {" { } ", "{}"},
    {"[]", "[]"},
    {"{\"b\":1,\"a\":[true,false,null],\"b\":{\"c\":\"d\"}}",
     R"({"b": {"c": "d"}, "a": [true, false, null]})"},
    {"[1,\t2,\r\n3]", "[1, 2, 3]"},
};

TEST(PythonJson, ReadsAndWritesAsPythonDoes) {
  for (const auto& [in, out] : kRoundCases) {
    const auto value = ParsePythonJson(in, "t");
    ASSERT_TRUE(value) << in << ": " << value.error().message;
    EXPECT_EQ(DumpPythonJson(*value), out) << in;
  }
}

TEST(PythonJson, RefusesWhatPythonRefuses) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "}",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "01",
                           "1.",
                           ".5",
                           "+1",
                           "-",
                           "1e",
                           "--1",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\u+123\"",
                           "\"a\nb\"",
                           "'a'",
                           "nul",
                           "True",
                           "1 2",
                           "\xEF\xBB\xBF"
                           "1",
                           "\"\xff\"",
                           "-NaN",
                           "\"\\ud800\\u12\""}) {
    EXPECT_FALSE(ParsePythonJson(text, "t")) << text;
  }
}

TEST(PythonJson, NamesTheSourceAndThePlace) {
  const auto value = ParsePythonJson("[1, x]", "input.json");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message, "input.json: JSON damaged at byte 4 of 6: expected a value");
}

TEST(PythonJson, BoundsNestingAndIntegers) {
  const auto deep = ParsePythonJson(std::string(100000, '['), "t");
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().message, HasSubstr("nested deeper"));
  EXPECT_TRUE(ParsePythonJson(std::string(500, '[') + std::string(500, ']'), "t"));
  EXPECT_TRUE(ParsePythonJson(std::string(4300, '7'), "t"));
  EXPECT_FALSE(ParsePythonJson(std::string(4301, '7'), "t"));
}

TEST(PythonJson, ReadsAnObjectOfManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 50000; ++i) {
    text += fmt::format("\"k{}\": {}, ", i, i);
  }
  text += "\"last\": 0}";
  const auto value = ParsePythonJson(text, "t");
  ASSERT_TRUE(value);
  EXPECT_EQ(DumpPythonJson(*value), text);
}

TEST(PythonJson, PrintsFloatsThatReadBack) {
  double value = 4.9406564584124654e-324;
  while (value < std::numeric_limits<double>::max() / 8) {
    EXPECT_EQ(std::strtod(PythonFloat(-value).c_str(), nullptr), -value);
    value *= 7.3;
  }
}

}  // namespace
}  // namespace cachalot
