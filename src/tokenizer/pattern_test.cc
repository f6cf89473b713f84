#include "tokenizer/pattern.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/pattern_syntax.h"
#include "tokenizer/tiny_tokenizer.h"

namespace cachalot {
namespace {

// The pieces that V4's patterns cut a text into, one after another.
std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> pieces = {text};
  PatternScratch scratch;
  for (const std::string& source : TinyPatterns()) {
    const Pattern pattern = Pattern::Compile(source).value();
    std::vector<std::string> finer;
    for (const std::string& piece : pieces) {
      for (size_t at = 0; at < piece.size();) {
        const Pattern::Match match = pattern.FindNext(piece, at, scratch).value();
        if (match.begin > at) {
          finer.push_back(piece.substr(at, match.begin - at));
        }
        if (match.end > match.begin) {
          finer.push_back(piece.substr(match.begin, match.end - match.begin));
        }
        at = match.end;
      }
    }
    pieces = finer;
  }
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(Pattern, CutsTextAsV4Does) {
  EXPECT_EQ(Split(""), (Pieces{}));
  EXPECT_EQ(Split("The capital of France"), (Pieces{"The", " capital", " of", " France"}));
  EXPECT_EQ(Split("1234567890"), (Pieces{"123", "456", "789", "0"}));
  EXPECT_EQ(Split("a12b"), (Pieces{"a", "12", "b"}));
  EXPECT_EQ(Split("   leading"), (Pieces{"  ", " leading"}));
  EXPECT_EQ(Split("end   "), (Pieces{"end", "   "}));
  EXPECT_EQ(Split("a \n \n b"), (Pieces{"a", " \n \n", " b"}));
  EXPECT_EQ(Split("a\r\n\r\nb"), (Pieces{"a", "\r\n\r\n", "b"}));
  EXPECT_EQ(Split("x = foo.bar;\n\n"), (Pieces{"x", " =", " foo", ".bar", ";\n\n"}));
  EXPECT_EQ(Split("don't ...!"), (Pieces{"don", "'t", " ...!"}));
  EXPECT_EQ(Split("中文かなカナabc"), (Pieces{"中文かなカナ", "abc"}));
  EXPECT_EQ(Split("日本 中"), (Pieces{"日本", " ", "中"}));
  EXPECT_EQ(Split("한국어 ру́сский"), (Pieces{"한국어", " ру́сский"}));
  EXPECT_EQ(Split("e\u0301\u0327x"), (Pieces{"e\u0301\u0327x"}));
  EXPECT_EQ(Split("😀😀 ok"), (Pieces{"😀😀", " ok"}));
  EXPECT_EQ(Split("٣٤٥٦"), (Pieces{"٣٤٥", "٦"}));
  EXPECT_EQ(Split("\x01\x02"), (Pieces{"\x01\x02"}));  // no pattern's business: left as it is
}

TEST(Pattern, TakesWhiteSpaceAsUnicodeHasIt) {
  for (const std::string space : {"\t", "\v", "\f", "\u0085", "\u00A0", "\u1680", "\u2003",
                                  "\u2028", "\u202F", "\u205F", "\u3000"}) {
    EXPECT_EQ(Split("." + space + space), (Pieces{".", space + space})) << space;
  }
  // Not white space, whatever PCRE2's own \s says of U+180E.
  for (const std::string other : {"\u180E", "\u200B", "\uFEFF"}) {
    EXPECT_EQ(Split(". " + other), (Pieces{".", " ", other})) << other;
  }
}

TEST(Pattern, CutsAMegabyteOfAnythingInOneGo) {
  constexpr size_t kLength = 1 << 20;
  EXPECT_EQ(Split(std::string(kLength, ' ')).size(), 1u);
  EXPECT_EQ(Split(std::string(kLength, ' ') + "x").size(), 2u);
  EXPECT_EQ(Split(std::string(kLength, '\n')).size(), 1u);
  EXPECT_EQ(Split(std::string(kLength, '!')).size(), 1u);
  EXPECT_EQ(Split(std::string(kLength, 'a')).size(), 1u);
  EXPECT_EQ(Split(std::string(kLength, '\x01')).size(), 1u);
  EXPECT_EQ(Split(std::string(kLength, '7')).size(), (kLength + 2) / 3);
}

TEST(Pattern, TakesMoreStackWhereTheMachineStackIsTooSmall) {
  const Pattern pattern = Pattern::Compile("(?:(a)|b)+c").value();
  PatternScratch scratch;
  const std::string text = std::string(100'000, 'a') + "c";
  const auto match = pattern.FindNext(text, 0, scratch);
  ASSERT_TRUE(match) << match.error().message;
  EXPECT_EQ(match->end, text.size());
}

TEST(Pattern, GivesUpWithAnErrorWhereMatchingExplodes) {
  const Pattern pattern = Pattern::Compile("(?:a|aa)+d").value();
  PatternScratch scratch;
  const auto match = pattern.FindNext(std::string(1000, 'a') + "xd", 0, scratch);
  ASSERT_FALSE(match);
  EXPECT_EQ(match.error().code, StatusCode::kResourceExhausted);
  EXPECT_EQ(match.error().message, "pattern gives up on this text: match limit exceeded");
}

TEST(PatternSyntax, LetsThroughWhatMeansTheSame) {
  EXPECT_EQ(
      TranslatePattern(R"([^\s\p{L}\p{Lu}]?\P{N}{1,3}|\S+(?!\d)|(?i:'s)|.\]{2,}|a*?b++)").value(),
      R"([^\p{White_Space}\p{L}\p{Lu}]?\P{N}{1,3}|\P{White_Space}+(?!\d)|(?i:'s)|.\]{2,}|a*?b++)");
  EXPECT_EQ(TranslatePattern("[一-龥$^&.]+").value(), "[一-龥$^&.]+");
}

TEST(PatternSyntax, RefusesWhatDoesNot) {
  for (const char* pattern :
       {R"(\h)",   R"(\w+)",     R"(a\b)",      R"(\p{Han})", R"(\pL)",  R"(\p{^L})", R"(\p{L)",
        R"(\x41)", R"(\K)",      R"(\)",        "^a",         "a$",      "(?<=a)b",   "(?<n>a)",
        "(?R)",    "(*COMMIT)a", "[[:alpha:]]", "[a&&b]",     "[]a]",    "[a",        "a{,3}",
        "a{b}",    "a{1",        "a{2}+",       "a{2}?",      "a{2}{3}", R"((a)\1)"}) {
    const auto translated = TranslatePattern(pattern);
    ASSERT_FALSE(translated) << pattern;
    EXPECT_EQ(translated.error().message.find('\n'), std::string::npos);
  }
}

TEST(Pattern, RefusesWhatCannotSplit) {
  for (const char* pattern : {"a*", "a?|b", "(?=a)", "(a", "a)", "[z-a]", "+", R"(\p{Lz})"}) {
    EXPECT_FALSE(Pattern::Compile(pattern)) << pattern;
  }
  EXPECT_FALSE(Pattern::Compile(std::string(5000, 'a')));
  EXPECT_FALSE(Pattern::Compile("((((a{999}){999}){999}){999})"));
}

}  // namespace
}  // namespace cachalot
