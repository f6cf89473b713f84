#include "tokenizer/tokenizer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tokenizer/tiny_tokenizer.h"

namespace cachalot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every refusal is one line that begins with the file's name.
void ExpectRefused(const std::string& text, StatusCode code, const std::string& message) {
  const auto tokenizer = Tokenizer::Parse(text, "t.json");
  ASSERT_FALSE(tokenizer) << "expected: " << message;
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
  EXPECT_TRUE(tokenizer.error().message.starts_with("t.json: ")) << tokenizer.error().message;
  EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
  EXPECT_THAT(tokenizer.error().message, Not(HasSubstr("\n")));
  EXPECT_LT(tokenizer.error().message.size(), 300u);
}

struct Damage {
  const char* message;
  std::function<void(Json&)> apply;
};

TEST(TokenizerFile, RefusesWhatIsInvalidAndSaysWhere) {
  const std::string long_text(5000, 'x');
  const Damage damages[] = {
      {"model is missing, expected an object", [](Json& j) { j.erase("model"); }},
      {"model is 7, expected an object", [](Json& j) { j["model"] = 7; }},
      {"model.type is missing, expected a string", [](Json& j) { j["model"].erase("type"); }},
      {"model.vocab is missing, expected an object", [](Json& j) { j["model"].erase("vocab"); }},
      {"model.vocab is an array of 1, expected", [](Json& j) { j["model"]["vocab"] = {1}; }},
      {"model.merges is missing, expected an array", [](Json& j) { j["model"].erase("merges"); }},
      {"model.merges is \"x\", expected an array", [](Json& j) { j["model"]["merges"] = "x"; }},
      {"model.vocab.\"he\" is -1, expected an id from 0 to 1048575",
       [](Json& j) { j["model"]["vocab"]["he"] = -1; }},
      {"model.vocab.\"he\" is 1000000000, expected an id",
       [](Json& j) { j["model"]["vocab"]["he"] = 1000000000; }},
      {"model.vocab.\"he\" is 18446744073709551615, expected",
       [](Json& j) { j["model"]["vocab"]["he"] = UINT64_MAX; }},
      {"model.vocab.\"he\" is 1.5, expected", [](Json& j) { j["model"]["vocab"]["he"] = 1.5; }},
      {"model.vocab.\"he\" is \"5\", expected", [](Json& j) { j["model"]["vocab"]["he"] = "5"; }},
      {"model.vocab.\"he\" is 100, which \"a\" has too",
       [](Json& j) { j["model"]["vocab"]["he"] = kTinyFirstByte + 'a'; }},
      {"model.vocab.\"\" is 7, expected a non-empty token",
       [](Json& j) { j["model"]["vocab"][""] = 7; }},
      {"model.vocab.\"a b\" is neither written", [](Json& j) { j["model"]["vocab"]["a b"] = 900; }},
      {"model.vocab.\"中\\n\" is neither written",
       [](Json& j) { j["model"]["vocab"]["中\n"] = 900; }},
      {"model.vocab lacks \"Ċ\", the token of byte 0x0A",
       [](Json& j) { j["model"]["vocab"].erase("Ċ"); }},
      {"model.vocab.\"<think>\" is 900, but added_tokens[1].id is 1000",
       [](Json& j) { j["model"]["vocab"]["<think>"] = 900; }},
      {"model.merges[2] is \"ab\", expected \"left right\"",
       [](Json& j) { j["model"]["merges"][2] = "ab"; }},
      {"model.merges[2] is \"a b c\", expected",
       [](Json& j) { j["model"]["merges"][2] = "a b c"; }},
      {"model.merges[2] is an array of 3, expected",
       [](Json& j) {
         j["model"]["merges"][2] = {"a", "b", "c"};
       }},
      {"model.merges[2] is an array of 2, expected",
       [](Json& j) {
         j["model"]["merges"][2] = {"a", 3};
       }},
      {"model.merges[2] is missing, expected", [](Json& j) { j["model"]["merges"][2] = nullptr; }},
      {"model.merges[2] needs the token \"zq\", which is not in model.vocab",
       [](Json& j) { j["model"]["merges"][2] = "zq a"; }},
      {"model.merges[2] needs the token \"zq\", which is not",
       [](Json& j) { j["model"]["merges"][2] = "a zq"; }},
      {"model.merges[2] needs the token \"ab\", which is not",
       [](Json& j) { j["model"]["merges"][2] = "a b"; }},
      {"model.merges[2] needs the token \"\", which is not",
       [](Json& j) { j["model"]["merges"][2] = " a"; }},
      {"model.merges[2] repeats model.merges[0]",
       [](Json& j) {
         j["model"]["merges"][2] = {"h", "e"};
       }},
      {"needs the token \"he\", which is an added token",
       [](Json& j) {
         j["added_tokens"][1]["content"] = "he";
         j["added_tokens"][1]["id"] = j["model"]["vocab"]["he"];
       }},
      {"added_tokens is an object of 0, expected an array",
       [](Json& j) { j["added_tokens"] = Json::object(); }},
      {"added_tokens[1] is \"x\", expected an object", [](Json& j) { j["added_tokens"][1] = "x"; }},
      {"added_tokens[1].id is missing, expected an id",
       [](Json& j) { j["added_tokens"][1].erase("id"); }},
      {"added_tokens[1].id is -3, expected an id",
       [](Json& j) { j["added_tokens"][1]["id"] = -3; }},
      {"added_tokens[1].id is 1000000000, expected an id",
       [](Json& j) { j["added_tokens"][1]["id"] = 1000000000; }},
      {"added_tokens[1].id is 0, which added_tokens[0] has too",
       [](Json& j) { j["added_tokens"][1]["id"] = 0; }},
      {"added_tokens[1].id is 100, which model.vocab gives to another",
       [](Json& j) { j["added_tokens"][1]["id"] = 100; }},
      {"added_tokens[1].content is \"\", expected a string of 1",
       [](Json& j) { j["added_tokens"][1]["content"] = ""; }},
      {"added_tokens[1].content is missing, expected",
       [](Json& j) { j["added_tokens"][1].erase("content"); }},
      {"added_tokens[1].content is \"xxx",
       [&](Json& j) { j["added_tokens"][1]["content"] = long_text; }},
      {"added_tokens[2].content is \"<think>\", which added_tokens[1]",
       [](Json& j) { j["added_tokens"][2]["content"] = "<think>"; }},
      {"added_tokens[1].special is missing, expected true or false",
       [](Json& j) { j["added_tokens"][1].erase("special"); }},
      {"added_tokens[1].normalized is 1, expected true or false",
       [](Json& j) { j["added_tokens"][1]["normalized"] = 1; }},
      {"pre_tokenizer is missing, expected an object", [](Json& j) { j.erase("pre_tokenizer"); }},
      {"pre_tokenizer.pretokenizers is an array of 0",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"] = Json::array(); }},
      {"pre_tokenizer.pretokenizers[1].pattern.Regex is missing",
       [](Json& j) {
         j["pre_tokenizer"]["pretokenizers"][1]["pattern"] = {{"String", "x"}};
       }},
      {"pre_tokenizer.pretokenizers[1].pattern.Regex: invalid pattern: ",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"] = "(a"; }},
      {"normalizer.normalizers is missing", [](Json& j) { j["normalizer"].erase("normalizers"); }},
      {"decoder is missing, expected an object", [](Json& j) { j.erase("decoder"); }},
      {"model.byte_fallback is \"no\", expected true or false",
       [](Json& j) { j["model"]["byte_fallback"] = "no"; }},
  };
  for (const Damage& damage : damages) {
    Json json = TinyTokenizerJson();
    damage.apply(json);
    ExpectRefused(DumpJson(json), StatusCode::kInvalidArgument, damage.message);
  }
}

TEST(TokenizerFile, RefusesByNameWhatIsNotSupported) {
  const Damage damages[] = {
      {"model.type is \"Unigram\", supported is only \"BPE\"",
       [](Json& j) { j["model"]["type"] = "Unigram"; }},
      {"model.dropout is 0.1, supported is only null",
       [](Json& j) { j["model"]["dropout"] = 0.1; }},
      {"model.unk_token is \"<unk>\", supported is only null",
       [](Json& j) { j["model"]["unk_token"] = "<unk>"; }},
      {"model.byte_fallback is true, supported is only false",
       [](Json& j) { j["model"]["byte_fallback"] = true; }},
      {"model.ignore_merges is true", [](Json& j) { j["model"]["ignore_merges"] = true; }},
      {"model.continuing_subword_prefix is \"##\"",
       [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }},
      {"model.end_of_word_suffix is \"</w>\"",
       [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {"model: unknown field \"shuffle\"", [](Json& j) { j["model"]["shuffle"] = 1; }},
      {"t.json: unknown field \"extra\"", [](Json& j) { j["extra"] = 1; }},
      {"truncation is an object of 1, supported is only null",
       [](Json& j) {
         j["truncation"] = {{"max_length", 5}};
       }},
      {"padding is true, supported is only null", [](Json& j) { j["padding"] = true; }},
      {"normalizer.type is \"NFC\", supported is only \"Sequence\"",
       [](Json& j) {
         j["normalizer"] = {{"type", "NFC"}};
       }},
      {"normalizer.normalizers is an array of 1",
       [](Json& j) {
         j["normalizer"]["normalizers"] = {{{"type", "NFC"}}};
       }},
      {"pre_tokenizer.type is \"Metaspace\"",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Metaspace"}};
       }},
      {"pretokenizers[0].type is \"Digits\", supported is only \"Split\"",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["type"] = "Digits"; }},
      {"pretokenizers[0].behavior is \"Removed\"",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }},
      {"pretokenizers[0].invert is true",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }},
      {"pretokenizers[3].add_prefix_space is true",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][3]["add_prefix_space"] = true; }},
      {"pretokenizers[3].use_regex is true",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][3].erase("use_regex"); }},
      {"pretokenizers[2].type is \"Split\", supported is only \"ByteLevel\"",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(3); }},
      {"pattern.Regex: a property other than a general category at byte 0",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{Han}+"; }},
      {"pattern.Regex: pattern that can match the empty string",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a*"; }},
      {"post_processor.type is \"TemplateProcessing\"",
       [](Json& j) {
         j["post_processor"] = {{"type", "TemplateProcessing"}};
       }},
      {"decoder.type is \"WordPiece\"", [](Json& j) { j["decoder"]["type"] = "WordPiece"; }},
      {"added_tokens[1].lstrip is true, supported is only false",
       [](Json& j) { j["added_tokens"][1]["lstrip"] = true; }},
      {"added_tokens[1].rstrip is true", [](Json& j) { j["added_tokens"][1]["rstrip"] = true; }},
      {"added_tokens[1].single_word is true",
       [](Json& j) { j["added_tokens"][1]["single_word"] = true; }},
      {"added_tokens[1]: unknown field \"weight\"",
       [](Json& j) { j["added_tokens"][1]["weight"] = 1; }},
  };
  for (const Damage& damage : damages) {
    Json json = TinyTokenizerJson();
    damage.apply(json);
    ExpectRefused(DumpJson(json), StatusCode::kUnsupported, damage.message);
  }
}

TEST(TokenizerFile, RefusesATruncatedFileAtEveryLength) {
  const std::string whole = DumpJson(TinyTokenizerJson({{"h", "e"}}));
  ASSERT_TRUE(Tokenizer::Parse(whole, "t.json"));
  for (size_t length = 0; length < whole.size(); length += 1 + whole.size() / 500) {
    ExpectRefused(whole.substr(0, length), StatusCode::kInvalidArgument, "JSON damaged at byte");
  }
  for (const char* text : {"[]", "3", "null", "\"\"", "{}"}) {
    ExpectRefused(text, StatusCode::kInvalidArgument, "expected an object");
  }
}

TEST(TokenizerFile, ReadsBothSpellingsOfMerges) {
  Json json = TinyTokenizerJson();
  const TokenizerFile joined = ParseTokenizerFile(DumpJson(json), "t.json").value();
  for (Json& merge : json["model"]["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  const TokenizerFile paired = ParseTokenizerFile(DumpJson(json), "t.json").value();
  ASSERT_EQ(joined.merges.size(), paired.merges.size());
  for (size_t i = 0; i < joined.merges.size(); ++i) {
    EXPECT_EQ(joined.merges[i].left, paired.merges[i].left);
    EXPECT_EQ(joined.merges[i].right, paired.merges[i].right);
    EXPECT_EQ(joined.merges[i].result, paired.merges[i].result);
  }
  EXPECT_EQ(joined.vocabulary.bytes(kTinyFirstMerge + 2), " the");
}

TEST(TokenizerFile, AcceptsHarmlessVariants) {
  Json json = TinyTokenizerJson();
  json["normalizer"] = nullptr;
  json["post_processor"] = nullptr;
  json["model"]["vocab"]["<｜begin▁of▁sentence｜>"] =
      kTinyBos;  // listed on both sides, as V3's file does
  json["model"]["continuing_subword_prefix"] = "";
  json["model"]["dropout"] = nullptr;
  json["model"]["fuse_unk"] = true;
  const Tokenizer tokenizer = TinyTokenizer(json);
  EXPECT_EQ(tokenizer.TokenId("<｜begin▁of▁sentence｜>"), kTinyBos);
}

TEST(TokenizerFile, NamesAFileThatIsMissing) {
  const auto tokenizer = Tokenizer::Load("/nowhere/tokenizer.json");
  ASSERT_FALSE(tokenizer);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("/nowhere/tokenizer.json"));
}

}  // namespace
}  // namespace cachalot
