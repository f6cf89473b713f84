#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <thread>

#include "tokenizer/tiny_tokenizer.h"

namespace cachalot {
namespace {

using Ids = std::vector<int32_t>;

Ids Encode(std::string_view text, bool special_tokens = true) {
  const auto ids = TinyTokenizer().Encode(text, {.special_tokens = special_tokens});
  EXPECT_TRUE(ids) << ids.error().message;
  return ids.value();
}

int32_t Id(std::string_view content) { return TinyTokenizer().TokenId(content).value(); }

TEST(Tokenizer, EncodesWordsByMergingWithinThem) {
  EXPECT_EQ(Encode(""), Ids{});
  EXPECT_EQ(Encode("the the"), (Ids{Id("the"), Id(" the")}));
  EXPECT_EQ(Encode("thex"), (Ids{Id("the"), Id("x")}));
  EXPECT_EQ(Encode("  the"), (Ids{Id(" "), Id(" the")}));
  EXPECT_EQ(Encode("the  "), (Ids{Id("the"), Id("  ")}));
  EXPECT_EQ(Encode("\r\n\n"), (Ids{Id("\r"), Id("\n\n")}));  // the lower rank wins over the left
  EXPECT_EQ(Encode("中"), (Ids{Id("中")}));
  EXPECT_EQ(Encode("é"), (Ids{Id("\xC3"), Id("\xA9")}));
}

TEST(Tokenizer, NeverMergesAcrossPieces) {
  EXPECT_EQ(Encode("1234"), (Ids{Id("123"), Id("4")}));  // "1234" and "34" are tokens
  EXPECT_EQ(Encode("he the"), (Ids{Id("he"), Id(" the")}));
  EXPECT_EQ(Encode("he!"), (Ids{Id("he"), Id("!")}));
}

TEST(Tokenizer, FindsAddedTokensBeforeAnythingElse) {
  EXPECT_EQ(Encode("<think>the</think>"), (Ids{kTinyThink, Id("the"), kTinyEndThink}));
  EXPECT_EQ(Encode("<think>hard"), (Ids{kTinyThinkHard}));
  EXPECT_EQ(Encode("<think>har"), (Ids{kTinyThink, Id("h"), Id("a"), Id("r")}));
  EXPECT_EQ(Encode("<｜begin▁of▁sentence｜><｜User｜>he"), (Ids{kTinyBos, kTinyUser, Id("he")}));
  EXPECT_EQ(Encode("<<think>"), (Ids{Id("<"), kTinyThink}));
  EXPECT_EQ(Encode("  <think>"), (Ids{Id("  "), kTinyThink}));  // the space run ends there
}

TEST(Tokenizer, LooksForUnnormalizedAddedTokensFirst) {
  Json json = TinyTokenizerJson();
  json["added_tokens"][1]["content"] = "ab<";    // normalized, begins further left
  json["added_tokens"][3]["content"] = "<user";  // not normalized
  const Tokenizer tokenizer = TinyTokenizer(json);
  EXPECT_EQ(tokenizer.Encode("ab<user").value(), (Ids{Id("a"), Id("b"), kTinyUser}));
  EXPECT_EQ(tokenizer.Encode("ab<usex").value()[0], kTinyThink);
}

TEST(Tokenizer, TreatsAddedTokensOfUntrustedTextAsText) {
  const Ids ids = Encode("<think>the<｜User｜>", false);
  for (const int32_t id : ids) {
    EXPECT_LT(id, kTinyThink);
    EXPECT_GE(id, kTinyFirstByte);
  }
  EXPECT_EQ(TinyTokenizer().Decode(ids).value(), "<think>the<｜User｜>");
}

TEST(Tokenizer, EncodesSegmentsEachByItself) {
  const std::vector<Segment> segments = {
      {"<think>t", true}, {"he</think>", false}, {"", false}, {"<thi", true}, {"nk>", true}};
  Ids expected = Encode("<think>t");
  for (const auto& [text, trusted] :
       {std::pair{"he</think>", false}, {"<thi", false}, {"nk>", false}}) {
    const Ids part = Encode(text, trusted);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(TinyTokenizer().EncodeSegments(segments).value(), expected);
  EXPECT_EQ(TinyTokenizer().EncodeSegments({}).value(), Ids{});
}

TEST(Tokenizer, RefusesInvalidUtf8AndNamesTheByte) {
  const auto ids = TinyTokenizer().Encode("the \xFFx");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, StatusCode::kInvalidArgument);
  EXPECT_EQ(ids.error().message, "text is not UTF-8: byte 4 of 6 is 0xFF");
  EXPECT_FALSE(TinyTokenizer().Encode("中\xE4\xB8"));
  const std::vector<Segment> segments = {{"ok", true}, {"\x80", false}};
  EXPECT_EQ(TinyTokenizer().EncodeSegments(segments).error().message,
            "segment 1: text is not UTF-8: byte 0 of 1 is 0x80");
  // Two halves of a character are not made whole.
  const std::vector<Segment> halves = {{"\xE4\xB8", false}, {"\xAD", false}};
  EXPECT_FALSE(TinyTokenizer().EncodeSegments(halves));
}

TEST(Tokenizer, SaysWhichPatternGaveUp) {
  Json json = TinyTokenizerJson();
  json["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"] = "(?:a|aa)+d";
  const auto ids = TinyTokenizer(json).Encode(std::string(1000, 'a') + "xd");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().message,
            "pre-tokenizer pattern 1: pattern gives up on this text: match limit exceeded");
}

TEST(Tokenizer, EncodesAMegabyteOfOneCharacter) {
  constexpr size_t kLength = 1 << 20;
  EXPECT_EQ(Encode(std::string(kLength, 'a')), Ids(kLength / 8, Id("aaaaaaaa")));
  EXPECT_EQ(Encode(std::string(kLength, ' ')), Ids(kLength / 4, Id("    ")));
  EXPECT_EQ(Encode(std::string(kLength, '\n')), Ids(kLength / 2, Id("\n\n")));
  EXPECT_EQ(Encode(std::string(kLength, '!')), Ids(kLength / 4, Id("!!!!")));
  EXPECT_EQ(Encode(std::string(kLength, '\x01')), Ids(kLength, Id("\x01")));
  EXPECT_EQ(Encode(std::string(kLength, '<')), Ids(kLength, Id("<")));
  std::string chinese;
  std::string digits;
  for (size_t i = 0; i < kLength / 3; ++i) {
    chinese += "中";
    digits += "123";
  }
  EXPECT_EQ(Encode(chinese), Ids(kLength / 3, Id("中")));
  EXPECT_EQ(Encode(digits), Ids(kLength / 3, Id("123")));
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer& tokenizer = TinyTokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), kTinyThinkHard + 1);
  EXPECT_EQ(tokenizer.TokenId("<think>"), kTinyThink);
  EXPECT_EQ(tokenizer.TokenId("<think"), std::nullopt);
  EXPECT_EQ(tokenizer.TokenId(""), std::nullopt);
  EXPECT_EQ(tokenizer.TokenBytes(kTinyUser).value(), "<｜User｜>");
  EXPECT_EQ(tokenizer.TokenBytes(kTinyFirstByte + 0xFF).value(), "\xFF");
  EXPECT_TRUE(tokenizer.IsSpecial(kTinyBos));
  EXPECT_FALSE(tokenizer.IsSpecial(kTinyThink));
  EXPECT_FALSE(tokenizer.IsSpecial(-1));
  EXPECT_TRUE(tokenizer.HasToken(kTinyFirstByte));
  for (const int32_t id : {-1, 1, 900, kTinyThinkHard + 1, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer.HasToken(id));
    EXPECT_FALSE(tokenizer.TokenBytes(id));
    EXPECT_FALSE(tokenizer.Decode(std::vector<int32_t>{kTinyFirstByte, id}));
  }
  EXPECT_EQ(tokenizer.TokenBytes(5000).error().message,
            "token id 5000 has no token, expected ids from 0 to 1003");
}

TEST(Tokenizer, DecodesToTheBytesAndSkipsSpecialTokensOnDemand) {
  const Ids ids = {kTinyBos, Id("the"), kTinyThink, Id("\xE4")};
  EXPECT_EQ(TinyTokenizer().Decode(ids).value(), "<｜begin▁of▁sentence｜>the<think>\xE4");
  EXPECT_EQ(TinyTokenizer().Decode(ids, true).value(), "the<think>\xE4");
}

TEST(Tokenizer, EncodesTheSameFromManyThreads) {
  const std::string text = "the <think>aaaa 123 中 he! \n\n";
  const Ids expected = Encode(text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        ids = TinyTokenizer().Encode(text).value();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(found, std::vector<Ids>(4, expected));
}

// Text of what matters to patterns and added tokens, in any order.
rc::Gen<std::string> AnyText() {
  const auto part = rc::gen::element<std::string>(
      "the", " ", "a", "he", "\n", "\r\n", "1", "23", "中", "é", "e\u0301", "😀", "!", "<", ">",
      "<think>", "</think>", "<｜User｜>", "｜", "\u00A0", "\u200B", "\t", ".",
      std::string(1, '\0'));
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(part),
                      [](const std::vector<std::string>& parts) {
                        std::string text;
                        for (const std::string& p : parts) {
                          text += p;
                        }
                        return text;
                      });
}

RC_GTEST_PROP(Tokenizer, DecodesWhatItEncoded, (bool special_tokens)) {
  const std::string text = *AnyText();
  RC_ASSERT(TinyTokenizer().Decode(Encode(text, special_tokens)).value() == text);
}

RC_GTEST_PROP(Tokenizer, GivesTheSameIdsForOneTextAndItsTrustedParts, ()) {
  // Cut where no added token lies across: after one.
  const std::string left = *AnyText() + "<think>";
  const std::string right = *AnyText();
  const std::vector<Segment> segments = {{left, true}, {right, true}};
  RC_PRE(!right.starts_with("hard"));
  RC_ASSERT(TinyTokenizer().EncodeSegments(segments).value() == Encode(left + right));
}

RC_GTEST_PROP(Tokenizer, NeverMakesAnAddedTokenOfUntrustedText, ()) {
  const std::vector<Segment> segments = {{*AnyText(), false}, {*AnyText(), false}};
  const Ids ids = TinyTokenizer().EncodeSegments(segments).value();
  for (const int32_t id : ids) {
    RC_ASSERT(id >= kTinyFirstByte && id < kTinyThink);
  }
}

}  // namespace
}  // namespace cachalot
