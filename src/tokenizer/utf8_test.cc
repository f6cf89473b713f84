#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include "tokenizer/byte_alphabet.h"

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

TEST(ByteAlphabet, WritesEveryByteAsOneCharacterAndReadsItBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all.push_back(static_cast<char>(byte));
    EXPECT_EQ(BytesOfWritten(WriteBytes(all.substr(byte))), all.substr(byte));
  }
  EXPECT_EQ(BytesOfWritten(WriteBytes(all)), all);
  EXPECT_EQ(WriteBytes(" the\n"), "ĠtheĊ");
  EXPECT_EQ(WriteBytes("\x7F\xA0\xAD"), "ġłŃ");
}

TEST(ByteAlphabet, RefusesCharactersOutside) {
  for (const char* written : {" ", "a b", "\n", "\u00A0", "\u00AD", "\u0144", "中", "｜", "😀"}) {
    EXPECT_EQ(BytesOfWritten(written), std::nullopt) << written;
  }
}

}  // namespace
}  // namespace cachalot
