#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <vector>

namespace cachalot {
namespace {

using testing::HasSubstr;

// A file of this header text and `data_bytes` of zeros, parsed in memory.
Result<SafetensorsHeader> Parse(const std::string& json, int64_t data_bytes) {
  const uint64_t length = json.size();
  const std::string head = std::string(reinterpret_cast<const char*>(&length), 8) + json;
  return ParseSafetensorsHeader(std::as_bytes(std::span(head.data(), head.size())),
                                static_cast<int64_t>(head.size()) + data_bytes, "f");
}

std::string Tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

TEST(Safetensors, ReadsTensorsInOrderOfTheirData) {
  const auto header =
      Parse(R"({"__metadata__":{"format":"pt"},)" + Tensor("b", "BF16", "[2,3]", "[4,16]") + "," +
                Tensor("a", "F32", "[]", "[0,4]") + "," + Tensor("none", "F32", "[0,8]", "[4,4]") +
                "}   ",
            16);
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_EQ(header->entries.size(), 3U);
  EXPECT_EQ(header->entries[0].name, "a");
  EXPECT_EQ(header->entries[1].name, "none");
  EXPECT_EQ(header->entries[2].name, "b");
  EXPECT_EQ(header->entries[2].dtype, "BF16");
  EXPECT_EQ(header->entries[2].shape, (std::vector<int64_t>{2, 3}));
}

TEST(Safetensors, FormatsWhatItReads) {
  const std::vector<SafetensorsEntry> entries = {{"x\"\n", "I8", {3}, 0, 3},
                                                 {"y", "F32", {1, 2}, 3, 11}};
  const std::string text = FormatSafetensorsHeader(entries);
  EXPECT_EQ(text.size() % 8, 0U);
  const auto header = ParseSafetensorsHeader(std::as_bytes(std::span(text.data(), text.size())),
                                             static_cast<int64_t>(text.size()) + 11, "f");
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->entries[0].name, "x\"\n");
  EXPECT_EQ(header->entries[1].end, 11);
}

struct Hostile {
  const char* what;
  std::string json;
  int64_t data_bytes;
  const char* message;
};

TEST(Safetensors, NamesWhatIsWrongWithAHostileHeader) {
  const std::string good = Tensor("a", "F32", "[2]", "[0,8]");
  const std::vector<Hostile> cases = {
      {"empty", "", 0, "does not begin with '{'"},
      {"array", "[]", 0, "does not begin with '{'"},
      {"cut JSON", "{\"a\":", 0, "header JSON damaged at byte"},
      {"junk after", "{} x", 0, "header JSON damaged"},
      {"invalid UTF-8", "{\"\xff\":{}}", 0, "header JSON damaged"},
      {"number for tensor", R"({"a":1})", 0, R"(tensor "a": description is 1, expected an object)"},
      {"null for tensor", R"({"a":null})", 0, "description is null"},
      {"metadata number", R"({"__metadata__":{"a":1}})", 0, "__metadata__ holds 1"},
      {"metadata object", R"({"__metadata__":{"a":{}}})", 0, "__metadata__ holds an object"},
      {"no dtype", R"({"a":{"shape":[],"data_offsets":[0,1]}})", 1, R"("a": dtype is missing)"},
      {"no shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "shape is missing"},
      {"no offsets", R"({"a":{"dtype":"U8","shape":[1]}})", 1, "data_offsets is missing"},
      {"unknown field", R"({"a":{"dtype":"U8","x":1}})", 1, R"(unknown field "x")"},
      {"field twice", R"({"a":{"dtype":"U8","dtype":"U8"}})", 1, "dtype is given twice"},
      {"unknown dtype", "{" + Tensor("a", "F9", "[2]", "[0,8]") + "}", 8,
       R"(dtype "F9" is unknown)"},
      {"dtype number", R"({"a":{"dtype":3}})", 1, "dtype is 3, expected a string"},
      {"negative dim", "{" + Tensor("a", "F32", "[-2]", "[0,8]") + "}", 8, "shape is -2"},
      {"fraction", "{" + Tensor("a", "F32", "[2.5]", "[0,8]") + "}", 8, "shape is 2.5"},
      {"nested shape", "{" + Tensor("a", "F32", "[[2]]", "[0,8]") + "}", 8, "shape is an array"},
      {"huge dim", "{" + Tensor("a", "F32", "[9223372036854775808]", "[0,8]") + "}", 8,
       "shape of 9223372036854775808"},
      {"rank 5", "{" + Tensor("a", "F32", "[1,1,1,1,2]", "[0,8]") + "}", 8,
       "shape has more than 4 numbers"},
      {"overflow", "{" + Tensor("a", "F32", "[4294967296,4294967296]", "[0,8]") + "}", 8,
       "[4294967296, 4294967296] overflows"},
      {"half a byte", "{" + Tensor("a", "F4", "[3]", "[0,2]") + "}", 2, "whole number of bytes"},
      {"one offset", "{" + Tensor("a", "F32", "[2]", "[8]") + "}", 8, "has 1 numbers, expected 2"},
      {"three offsets", "{" + Tensor("a", "F32", "[2]", "[0,8,9]") + "}", 8, "more than 2 numbers"},
      {"backwards", "{" + Tensor("a", "F32", "[2]", "[8,0]") + "}", 8, "end before they begin"},
      {"lying size", "{" + Tensor("a", "F32", "[2]", "[0,4]") + "}", 4,
       "span 4 bytes, expected 8 for F32 [2]"},
      {"outside", "{" + Tensor("a", "F32", "[2]", "[0,8]") + "}", 7,
       R"(tensor "a" ends at byte 8 of the data, which has 7)"},
      {"far outside",
       "{" + Tensor("a", "U8", "[1]", "[9223372036854775806,9223372036854775807]") + "}", 1,
       "ends at byte 9223372036854775807"},
      {"too many bytes", "{" + good + "}", 9, "end at byte 8 of the data, which has 9"},
      {"overlap", "{" + good + "," + Tensor("b", "F32", "[2]", "[4,12]") + "}", 12,
       R"(tensor "b" begins at byte 4 of the data, inside "a", which ends at 8)"},
      {"same place", "{" + good + "," + Tensor("b", "F32", "[2]", "[0,8]") + "}", 8, "inside"},
      {"hole", "{" + good + "," + Tensor("b", "F32", "[2]", "[12,20]") + "}", 20,
       R"(tensor "b" begins at byte 12 of the data, expected 8)"},
      {"name twice", "{" + good + "," + Tensor("a", "F32", "[2]", "[8,16]") + "}", 16,
       R"(tensor "a" is there twice)"},
      {"deep", std::string("{\"a\":") + std::string(1000000, '['), 0, "description is an array"},
      {"long name", "{\"" + std::string(1000000, 'n') + "\":1}", 0, "nnn\"...: description is 1"},
  };
  for (const auto& hostile : cases) {
    const auto header = Parse(hostile.json, hostile.data_bytes);
    ASSERT_FALSE(header) << hostile.what;
    EXPECT_THAT(header.error().message, HasSubstr(hostile.message)) << hostile.what;
    EXPECT_EQ(header.error().message.substr(0, 3), "f: ") << hostile.what;
    EXPECT_LT(header.error().message.size(), 400U) << hostile.what;
  }
}

Result<SafetensorsHeader> ParseRaw(const std::string& bytes, int64_t file_size) {
  return ParseSafetensorsHeader(std::as_bytes(std::span(bytes.data(), bytes.size())), file_size,
                                "f");
}

TEST(Safetensors, RefusesLyingHeaderLengths) {
  EXPECT_THAT(ParseRaw("1234567", 7).error().message, HasSubstr("7 bytes, too short"));
  for (const uint64_t length : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{17}}) {
    std::string bytes(24, '{');
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_THAT(ParseRaw(bytes, 24).error().message,
                HasSubstr(fmt::format("header length is {}, expected at most 16", length)));
  }
  const uint64_t above = kMaxSafetensorsHeaderBytes + 1;
  EXPECT_THAT(
      ParseRaw(std::string(reinterpret_cast<const char*>(&above), 8), 1 << 30).error().message,
      HasSubstr("expected at most 100000000"));
}

TEST(Safetensors, ReadsAHundredMegabytesOfHeaderWithoutHarm) {
  std::string json = "{\"__metadata__\":{\"a\":\"";
  json.append(static_cast<size_t>(kMaxSafetensorsHeaderBytes) - json.size() - 3, 'x');
  json += "\"}}";
  EXPECT_TRUE(Parse(json, 0));
  std::string numbers = "{\"a\":{\"shape\":[";
  while (numbers.size() < 99'000'000) {
    numbers += "1,1,1,1,1,1,1,1,";
  }
  EXPECT_THAT(Parse(numbers, 0).error().message, HasSubstr("more than 4 numbers"));
}

TEST(Safetensors, ViewsTheDataOfAFile) {
  const std::string path = testing::TempDir() + "views.safetensors";
  const std::vector<SafetensorsEntry> entries = {{"x", "U8", {3}, 0, 3}, {"y", "U8", {2}, 3, 5}};
  std::ofstream(path, std::ios::binary) << FormatSafetensorsHeader(entries) << "abcde";
  auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file) << file.error().message;
  const auto data = file->data(file->entries()[1]);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(data.data()), data.size()), "de");
  EXPECT_EQ(SafetensorsFile::Open(path + ".absent").error().code, StatusCode::kNotFound);
}

}  // namespace
}  // namespace cachalot
