// Genuine tokenizers: DeepSeek-V4's, where the checkout has it beside it, and that of calf, the
// small model that is part of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "io/json.h"
#include "tokenizer/incremental_decoder.h"
#include "tokenizer/tokenizer.h"

namespace cachalot {
namespace {

using Ids = std::vector<int32_t>;

const std::string kData = CACHALOT_SOURCE_DIR "/../shared/data/";

class DeepSeekV4 : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::filesystem::exists(kData + "tokenizer_v4.json")) {
      tokenizer_ = new Tokenizer(Tokenizer::Load(kData + "tokenizer_v4.json").value());
    }
  }
  static void TearDownTestSuite() {
    delete tokenizer_;
    tokenizer_ = nullptr;
  }
  void SetUp() override {
    if (tokenizer_ == nullptr) {
      GTEST_SKIP() << kData << "tokenizer_v4.json is absent";
    }
  }

  static Ids Encode(std::string_view text) { return tokenizer_->Encode(text).value(); }

  static Tokenizer* tokenizer_;
};
Tokenizer* DeepSeekV4::tokenizer_ = nullptr;

TEST_F(DeepSeekV4, EncodesEveryVectorAndDecodesItBack) {
  const auto vectors = ReadJsonFile(kData + "tokenizer_vectors.json", 16 << 20);
  ASSERT_TRUE(vectors) << vectors.error().message;
  EXPECT_EQ(vectors->size(), 2118u);
  for (const Json& vector : *vectors) {
    const std::string text = vector["t"];
    const Ids expected = vector["ids"];
    EXPECT_EQ(Encode(text), expected) << text;
    EXPECT_EQ(tokenizer_->Decode(expected).value(), text);
    IncrementalDecoder decoder(*tokenizer_);
    std::string streamed;
    for (const int32_t id : expected) {
      streamed += decoder.Push(id).value();
    }
    EXPECT_EQ(streamed + decoder.Finish(), text);
  }
}

TEST_F(DeepSeekV4, GivesTheKnownIds) {
  EXPECT_EQ(Encode("The capital of France is"), (Ids{671, 6102, 294, 8760, 344}));
  EXPECT_EQ(Encode("1234567890"), (Ids{6895, 18009, 25744, 18}));
  EXPECT_EQ(Encode("   leading spaces"), (Ids{262, 6646, 13564}));
  EXPECT_EQ(Encode(" \n "), (Ids{539, 223}));
  EXPECT_EQ(Encode("<｜begin▁of▁sentence｜><｜User｜>"), (Ids{0, 128803}));
  EXPECT_EQ(tokenizer_->vocab_size(), 129280);
  EXPECT_EQ(tokenizer_->TokenId("<think>"), 128821);
  EXPECT_EQ(tokenizer_->TokenId("｜DSML｜"), 128825);
  EXPECT_TRUE(tokenizer_->IsSpecial(1));
}

TEST_F(DeepSeekV4, HasATokenForEveryIdAndFindsItAgain) {
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const auto bytes = tokenizer_->TokenBytes(id);
    ASSERT_TRUE(bytes) << id;
    EXPECT_EQ(tokenizer_->TokenId(*bytes), id);
  }
}

TEST_F(DeepSeekV4, EncodesAMegabyteOfOneCharacterAndBack) {
  for (const std::string unit : {"a", " ", "\n", "!", "7", "中", "é", "\u0301", "\x01", "<", "｜",
                                 "<｜", "=-", "\r\n", "ab ", " \n"}) {
    std::string text;
    while (text.size() < 1 << 20) {
      text += unit;
    }
    EXPECT_EQ(tokenizer_->Decode(Encode(text)).value(), text);
  }
}

const std::string kCalf = CACHALOT_SOURCE_DIR "/models/calf/";

TEST(Calf, LoadsAndEncodes) {
  const auto tokenizer = Tokenizer::Load(kCalf + "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 4048);
  const std::string text =
      "<｜begin▁of▁sentence｜><｜User｜>What is the capital of France?<｜Assistant｜></think>";
  const Ids ids = tokenizer->Encode(text).value();
  EXPECT_EQ(ids.front(), 0);
  EXPECT_EQ(ids.back(), 4033);
  EXPECT_EQ(tokenizer->Decode(ids).value(), text);
}

// Runs of added tokens, trusted, and the text between them, which is not.
std::vector<Segment> CutAtAddedTokens(std::string_view prompt,
                                      const std::vector<std::string>& added_tokens) {
  std::vector<Segment> segments;
  const auto append = [&](std::string_view text, bool trusted) {
    if (segments.empty() || segments.back().trusted != trusted) {
      segments.push_back({"", trusted});
    }
    segments.back().text += text;
  };
  while (!prompt.empty()) {
    const auto token = std::ranges::find_if(
        added_tokens, [&](const std::string& content) { return prompt.starts_with(content); });
    const bool is_token = token != added_tokens.end();
    const size_t length = is_token ? token->size() : 1;
    append(prompt.substr(0, length), is_token);
    prompt.remove_prefix(length);
  }
  return segments;
}

TEST(Calf, GivesTheSameIdsForAPromptAndItsSegments) {
  const auto tokenizer = Tokenizer::Load(kCalf + "tokenizer.json");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto file = ReadJsonFile(kCalf + "tokenizer.json", 1 << 20);
  ASSERT_TRUE(file) << file.error().message;
  std::vector<std::string> added_tokens;
  for (const Json& token : (*file)["added_tokens"]) {
    added_tokens.push_back(token["content"]);
  }
  std::ifstream lines(kCalf + "eval.jsonl");
  int num_prompts = 0;
  int num_long = 0;
  for (std::string line; std::getline(lines, line); ++num_prompts) {
    const auto entry = ParseJson(line, "eval.jsonl");
    ASSERT_TRUE(entry) << entry.error().message;
    const std::string prompt = (*entry)["prompt"];
    const std::vector<Segment> segments = CutAtAddedTokens(prompt, added_tokens);
    EXPECT_EQ(tokenizer->EncodeSegments(segments).value(), tokenizer->Encode(prompt).value())
        << prompt;
    num_long += segments.size() > 3;
  }
  EXPECT_GT(num_prompts, 100);
  EXPECT_GT(num_long, 10);  // tools and earlier turns, not only a question
}

}  // namespace
}  // namespace cachalot
