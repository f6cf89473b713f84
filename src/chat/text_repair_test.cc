#include "chat/text_repair.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

struct RepairCase {
  const char* bytes;
  const char* text;
};

constexpr RepairCase kRepairCases[] = {
    {"", ""},
    {"a\x7f", "a\x7f"},
    {"\xC3\xA9 \xEF\xBD\x9C \xF0\x9F\x90\xB3", "é ｜ 🐳"},
    {"\x80", "\xEF\xBF\xBD"},                                  // starts nothing
    {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // over-long
    {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // over-long
    {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // surrogate
    {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xE2\x82"
     "a",
     "\xEF\xBF\xBD\xEF\xBF\xBD"
     "a"},                                                       // broken off
    {"a\xF0\x9F\x90", "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // cut by the end
};

TEST(TextRepair, ReplacesWhatIsNoCharacterInAnySplit) {
  for (const auto& [bytes, text] : kRepairCases) {
    const std::string_view whole = bytes;
    for (size_t split = 0; split <= whole.size(); ++split) {
      TextRepair repair;
      std::string out = repair.Push(whole.substr(0, split));
      EXPECT_TRUE(IsValidUtf8(out)) << text << " split at " << split;
      out += repair.Push(whole.substr(split));
      out += repair.Finish();
      EXPECT_EQ(out, text) << "split at " << split;
    }
    EXPECT_EQ(IsValidUtf8(bytes), std::string_view(bytes) == text);
  }
}

TEST(TextRepair, EncodesEveryCodePoint) {
  for (char32_t code = 0; code < 0x110100; ++code) {
    std::string text;
    AppendCodePoint(text, code);
    ASSERT_TRUE(IsValidUtf8(text)) << static_cast<unsigned>(code);
    const bool is_character = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    ASSERT_EQ(text == "\xEF\xBF\xBD", !is_character || code == 0xFFFD)
        << static_cast<unsigned>(code);
  }
}

}  // namespace
}  // namespace cachalot
