#include "cache/page_key.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace cachalot {
namespace {

std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens(kPageTokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// The expected digits are those of coreutils' b2sum -l 256 over the same bytes.
TEST(PageKey, IsThePlainBlake2bOfParentAndTokens) {
  const PageKey root = RootKey("model");
  EXPECT_EQ(HexOf(root), "9b78e7e777962c4159a0954ce3816409e22eddf802284361e36fd9de052348a8");
  EXPECT_EQ(HexOf(ChildKey(root, Tokens(1000))),
            "5b21bd138d32a491153e6385d45ab613c5f0abbbcdd49c765c748558d2066e17");
}

TEST(PageKey, NamesTheModelAndEveryTokenBefore) {
  std::set<PageKey> keys = {RootKey(""), RootKey("a"), RootKey("b")};
  const PageKey first = ChildKey(RootKey("a"), Tokens(0));
  keys.insert(first);
  keys.insert(ChildKey(RootKey("b"), Tokens(0)));
  keys.insert(ChildKey(first, Tokens(0)));
  for (size_t i = 0; i < static_cast<size_t>(kPageTokens); ++i) {
    auto tokens = Tokens(0);
    tokens[i] ^= 1 << 20;
    keys.insert(ChildKey(RootKey("a"), tokens));
  }
  EXPECT_EQ(keys.size(), 6 + static_cast<size_t>(kPageTokens));
  EXPECT_EQ(ChildKey(RootKey("a"), Tokens(0)), first);
  EXPECT_EQ(std::hash<PageKey>()(ChildKey(RootKey("a"), Tokens(0))), std::hash<PageKey>()(first));
}

TEST(PageKeyDeathTest, RefusesAnythingButAWholePage) {
  EXPECT_DEATH(ChildKey(RootKey("a"), std::vector<int32_t>(127)), "127 against 128");
}

}  // namespace
}  // namespace cachalot
