// The genuine tokenizers, where the checkout has them beside it.
#include <gtest/gtest.h>

#include <filesystem>

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
    const std::vector<Segment> one = {{text, true}};
    EXPECT_EQ(tokenizer_->EncodeJoined(one).value(), expected) << text;
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

TEST(Calf, LoadsAndEncodes) {
  const std::string path = CACHALOT_SOURCE_DIR "/../shared/models/calf/tokenizer.json";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is absent";
  }
  const auto tokenizer = Tokenizer::Load(path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 4048);
  const std::string text =
      "<｜begin▁of▁sentence｜><｜User｜>What is the capital of France?<｜Assistant｜></think>";
  const Ids ids = tokenizer->Encode(text).value();
  EXPECT_EQ(ids.front(), 0);
  EXPECT_EQ(ids.back(), 4033);
  EXPECT_EQ(tokenizer->Decode(ids).value(), text);
}

}  // namespace
}  // namespace cachalot
