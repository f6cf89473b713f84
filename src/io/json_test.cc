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

TEST(Json, RefusesInvalidUtf8) { EXPECT_FALSE(ParseJson("\"\xff\"", "t")); }

TEST(Json, DumpsInvalidUtf8AsReplacement) {
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace cachalot
