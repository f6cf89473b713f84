#include "tokenizer/incremental_decoder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "io/utf8.h"
#include "tokenizer/tiny_tokenizer.h"

namespace cachalot {
namespace {

int32_t Byte(int byte) { return kTinyFirstByte + byte; }

TEST(IncrementalDecoder, HoldsBackABegunCharacter) {
  IncrementalDecoder decoder(TinyTokenizer());
  EXPECT_EQ(decoder.Push(Byte('a')).value(), "a");
  EXPECT_EQ(decoder.Push(Byte(0xF0)).value(), "");
  EXPECT_EQ(decoder.Push(Byte(0x9F)).value(), "");
  EXPECT_EQ(decoder.Push(Byte(0x98)).value(), "");
  EXPECT_EQ(decoder.Push(Byte(0x80)).value(), "😀");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(IncrementalDecoder, ReplacesWhatCannotBecomeACharacterAtOnce) {
  IncrementalDecoder decoder(TinyTokenizer());
  EXPECT_EQ(decoder.Push(Byte(0x80)).value(), "\uFFFD");
  EXPECT_EQ(decoder.Push(Byte(0xE4)).value(), "");
  EXPECT_EQ(decoder.Push(Byte('x')).value(), "\uFFFDx");
  EXPECT_EQ(decoder.Push(Byte(0xE4)).value(), "");
  EXPECT_EQ(decoder.Push(Byte(0xE4)).value(), "\uFFFD");  // the second may still become one
  EXPECT_EQ(decoder.Push(Byte(0xB8)).value(), "");
  EXPECT_EQ(decoder.Finish(), "\uFFFD");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(IncrementalDecoder, RefusesAnIdWithoutATokenAndGoesOn) {
  IncrementalDecoder decoder(TinyTokenizer());
  EXPECT_EQ(decoder.Push(Byte(0xC3)).value(), "");
  for (const int32_t id : {-1, 900, 1 << 30}) {
    const auto text = decoder.Push(id);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, StatusCode::kOutOfRange);
  }
  EXPECT_EQ(decoder.Push(Byte(0xA9)).value(), "é");
}

TEST(IncrementalDecoder, SkipsSpecialTokensOnDemand) {
  IncrementalDecoder decoder(TinyTokenizer(), true);
  EXPECT_EQ(decoder.Push(kTinyBos).value(), "");
  EXPECT_EQ(decoder.Push(kTinyThink).value(), "<think>");
  EXPECT_EQ(decoder.Push(Byte(0xC3)).value(), "");
  EXPECT_EQ(decoder.Push(kTinyUser).value(), "");
  EXPECT_EQ(decoder.Push(Byte(0xA9)).value(), "é");
}

void ExpectSameAsOneShot(const std::vector<int32_t>& ids, bool skip_special) {
  IncrementalDecoder decoder(TinyTokenizer(), skip_special);
  std::string text;
  size_t num_bytes = 0;
  for (const int32_t id : ids) {
    const std::string part = decoder.Push(id).value();
    RC_ASSERT(!FindInvalidUtf8(part));
    text += part;
    num_bytes +=
        skip_special && TinyTokenizer().IsSpecial(id) ? 0 : TinyTokenizer().TokenBytes(id)->size();
    // A replacement is never shorter than what it stands for, so at most the last three bytes can
    // be missing.
    RC_ASSERT(text.size() + 3 >= num_bytes);
  }
  text += decoder.Finish();
  RC_ASSERT(text == ReplaceInvalidUtf8(TinyTokenizer().Decode(ids, skip_special).value()));
}

RC_GTEST_PROP(IncrementalDecoder, GivesTheOneShotTextForAnyIds, (bool skip_special)) {
  const auto id = rc::gen::oneOf(rc::gen::inRange(kTinyFirstByte, kTinyFirstMerge + 10),
                                 rc::gen::element(kTinyBos, kTinyThink, kTinyUser));
  ExpectSameAsOneShot(*rc::gen::container<std::vector<int32_t>>(id), skip_special);
}

RC_GTEST_PROP(IncrementalDecoder, GivesTheOneShotTextForBytesNearTheBordersOfUtf8, ()) {
  const auto byte = rc::gen::element(0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2,
                                     0xDF, 0xE0, 0xE4, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF);
  std::vector<int32_t> ids;
  for (const int b : *rc::gen::container<std::vector<int>>(byte)) {
    ids.push_back(Byte(b));
  }
  ExpectSameAsOneShot(ids, false);
}

}  // namespace
}  // namespace cachalot
