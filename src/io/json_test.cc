#include "io/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cachalot {
namespace {

TEST(Json, NamesTheSourceAndThePlaceOfDamage) {
  const auto result = ParseJson(R"({"a": })", "config.json");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "config.json: JSON damaged at byte 7 of 7");
}

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(DumpJson(*ParseOrderedJson(R"({"b":1,"a":2})", "t")), R"({"b":1,"a":2})");
}

TEST(Json, KeepsTheLastOfADuplicateKey) {
  EXPECT_EQ(DumpJson(*ParseOrderedJson(R"({"b":1,"a":2,"b":3})", "t")), R"({"b":3,"a":2})");
}

TEST(Json, RefusesEndlessNesting) {
  const auto result = ParseJson(std::string(200000, '[') + std::string(200000, ']'), "t");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, testing::HasSubstr("nested deeper than 512"));
}

TEST(Json, RefusesTextAfterTheValue) {
  EXPECT_TRUE(ParseJson(" 1 \r\n", "t"));
  EXPECT_FALSE(ParseJson("1 junk", "t"));
  EXPECT_FALSE(ParseJson("1 2", "t"));
}

TEST(Json, RefusesANulByte) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"1\0junk"sv, "1\0"sv, "\0"sv, "[1,\0 2]"sv, "\"\0\""sv}) {
    for (const auto& message :
         {ParseJson(text, "t").error().message, ParseOrderedJson(text, "t").error().message}) {
      EXPECT_EQ(message, fmt::format("t: JSON damaged at byte {} of {}: a NUL byte",
                                     text.find('\0') + 1, text.size()));
    }
  }
  // Escaped it is a character as any other.
  EXPECT_EQ(*ParseJson("\"\\u0000\"", "t"), Json(std::string(1, '\0')));
}

TEST(Json, RefusesAByteOrderMark) {
  for (const std::string_view text : {"\uFEFF1", "\uFEFF", "\uFEFF{}"}) {
    const auto result = ParseJson(text, "config.json");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message,
              "config.json: JSON begins with a byte-order mark, expected UTF-8 without one");
  }
  EXPECT_EQ(*ParseJson("\"\uFEFF\"", "t"), Json("\uFEFF"));
}

TEST(Json, RefusesInvalidUtf8) { EXPECT_FALSE(ParseJson("\"\xff\"", "t")); }

TEST(Json, DumpsInvalidUtf8AsReplacement) {
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace cachalot
