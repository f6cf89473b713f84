#include "io/utf8.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

TEST(Utf8, NamesTheByteOfTheFirstFault) {
  const struct {
    std::string_view text;
    std::optional<size_t> fault;
  } cases[] = {
      {"", std::nullopt},
      {"plain ascii, longer than eight bytes", std::nullopt},
      {"é 中 😀 \xEF\xBF\xBF \xF4\x8F\xBF\xBF", std::nullopt},
      {"12345678\xFF", 8},
      {"abc\x80", 3},
      {"\xC0\xAF", 0},           // overlong
      {"\xE0\x9F\xBF", 0},       // overlong
      {"x\xF0\x8F\xBF\xBF", 1},  // overlong
      {"x\xED\xA0\x80", 1},      // surrogate
      {"\xF4\x90\x80\x80", 0},   // above U+10FFFF
      {"\xF5\x80\x80\x80", 0},
      {"中\xE4\xB8", 3},  // the text ends inside a character
      {"中\xE4\xB8x", 3},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(FindInvalidUtf8(c.text), c.fault) << c.text;
  }
}

TEST(Utf8, AcceptsExactlyTheEncodingsOfAllCodePoints) {
  int num_characters = 0;
  for (uint32_t bits = 0; bits < 0x1000000; ++bits) {
    const char three[] = {static_cast<char>(bits >> 16), static_cast<char>(bits >> 8),
                          static_cast<char>(bits)};
    const Utf8Step step = NextUtf8({three, 3});
    num_characters += step.kind == Utf8Kind::kCharacter && step.length == 3;
  }
  EXPECT_EQ(num_characters, 0x10000 - 0x800 - 0x800);  // U+0800..U+FFFF without surrogates
}

TEST(Utf8, ReplacesEachMaximalInvalidPartOnce) {
  EXPECT_EQ(ReplaceInvalidUtf8("ok é"), "ok é");
  EXPECT_EQ(ReplaceInvalidUtf8("a\xFF"
                               "b"),
            "a\uFFFDb");
  // The example of the Unicode standard, section 3.9: truncated sequences count once, stray bytes
  // one by one.
  EXPECT_EQ(ReplaceInvalidUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8, ReplacesEachPartOfWhatIsNoCharacter) {
  const struct {
    std::string_view bytes;
    std::string_view text;
  } cases[] = {
      {"", ""},
      {"a\x7F", "a\x7F"},
      {"\xC3\xA9 \xEF\xBD\x9C \xF0\x9F\x90\xB3", "é ｜ 🐳"},
      {"\x80", "\uFFFD"},                      // starts nothing
      {"\xC0\x80", "\uFFFD\uFFFD"},            // overlong
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},  // overlong
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xE2\x82 a", "\uFFFD a"},    // broken off
      {"a\xF0\x9F\x90", "a\uFFFD"},  // cut by the end
      {"\xE4\xE4", "\uFFFD\uFFFD"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(ReplaceInvalidUtf8(c.bytes), c.text);
    EXPECT_EQ(FindInvalidUtf8(c.bytes).has_value(), c.bytes != c.text) << c.text;
  }
}

TEST(Utf8, WritesEveryCodePoint) {
  std::string last;  // UTF-8 keeps the order of code points
  for (char32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    AppendCodePoint(text, code);
    const Utf8Step step = NextUtf8(text);
    ASSERT_EQ(step.kind, Utf8Kind::kCharacter) << static_cast<unsigned>(code);
    ASSERT_EQ(step.length, text.size()) << static_cast<unsigned>(code);
    if (code >= 0xD800 && code <= 0xDFFF) {
      ASSERT_EQ(text, kReplacementCharacter) << static_cast<unsigned>(code);
    } else {
      ASSERT_TRUE(code == 0 || text > last) << static_cast<unsigned>(code);
      last = text;
    }
  }
  std::string text;
  for (const char32_t code : {U'a', U'é', U'中', U'😀', char32_t{0x110000}, char32_t{0xFFFFFFFF}}) {
    AppendCodePoint(text, code);
  }
  EXPECT_EQ(text, "aé中😀\uFFFD\uFFFD");
}

TEST(Utf8Stream, GivesWholeCharactersAtOnce) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xF0"), "a");
  EXPECT_EQ(stream.Push("\x9F\x98"), "");
  EXPECT_EQ(stream.Push("\x80\xE4"), "😀");
  EXPECT_EQ(stream.Push("\xE4"), "\uFFFD");  // the second may still become a character
  EXPECT_EQ(stream.Push(""), "");
  EXPECT_EQ(stream.Push("x\xFF"), "\uFFFDx\uFFFD");
  EXPECT_EQ(stream.Push("\xF4\x8F\xBF"), "");
  EXPECT_EQ(stream.Finish(), "\uFFFD");
  EXPECT_EQ(stream.Push("\xBF"), "\uFFFD");  // as new
  EXPECT_EQ(stream.Finish(), "");
}

// Texts of up to four bytes, one of each class that a decoder tells apart, in every split.
TEST(Utf8Stream, GivesTheTextOfAllBytesInAnySplit) {
  constexpr std::string_view kBytes = "A\x80\x90\xA0\xC0\xC3\xE0\xE4\xED\xF0\xF2\xF4";
  constexpr size_t kLength = 4;
  size_t num_texts = 1;
  for (size_t i = 0; i < kLength; ++i) {
    num_texts *= kBytes.size();
  }
  for (size_t number = 0; number < num_texts; ++number) {
    std::string bytes;
    for (size_t rest = number; rest > 0; rest /= kBytes.size()) {
      bytes.push_back(kBytes[rest % kBytes.size()]);
    }
    const std::string expected = ReplaceInvalidUtf8(bytes);
    // Bit i of `cuts` says whether a piece ends after byte i.
    for (unsigned cuts = 0; cuts < 1u << bytes.size(); cuts += 2) {
      Utf8Stream stream;
      std::string text;
      std::string piece;
      for (size_t i = 0; i < bytes.size(); ++i) {
        piece.push_back(bytes[i]);
        if (cuts >> (i + 1) & 1) {
          text += stream.Push(piece);
          piece.clear();
          ASSERT_FALSE(FindInvalidUtf8(text)) << number << " cut at " << cuts;
        }
      }
      text += stream.Push(piece);
      ASSERT_FALSE(FindInvalidUtf8(text)) << number << " cut at " << cuts;
      ASSERT_EQ(text + stream.Finish(), expected) << number << " cut at " << cuts;
    }
  }
}

TEST(Utf8Prefix, CutsBetweenCharacters) {
  const std::string_view text = "a\u00e9\u20ac\U0001F433";  // 1, 2, 3 and 4 bytes
  const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t max_bytes = 0; max_bytes < 12; ++max_bytes) {
    EXPECT_EQ(Utf8Prefix(text, max_bytes), text.substr(0, ends[max_bytes])) << max_bytes;
  }
}

}  // namespace
}  // namespace cachalot
