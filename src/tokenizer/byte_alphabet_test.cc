#include "tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

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
