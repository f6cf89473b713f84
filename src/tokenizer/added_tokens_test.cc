#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace cachalot {
namespace {

AddedTokenFinder FinderOf(const std::vector<std::string>& contents) {
  std::vector<AddedToken> tokens;
  for (const std::string& content : contents) {
    tokens.push_back({static_cast<int32_t>(tokens.size()), content, false, false});
  }
  return AddedTokenFinder(std::move(tokens));
}

std::vector<int32_t> IdsIn(const AddedTokenFinder& finder, std::string_view text) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size();) {
    const auto match = finder.FindNext(text, at);
    if (match.id != kNoToken) {
      ids.push_back(match.id);
    }
    at = match.end;
  }
  return ids;
}

TEST(AddedTokenFinder, TakesTheLeftmostAndThenTheLongest) {
  const AddedTokenFinder finder = FinderOf({"ab", "abc", "bcdef", "b", "<a", "<<a"});
  EXPECT_EQ(IdsIn(finder, "abcdef"), (std::vector<int32_t>{1}));
  EXPECT_EQ(IdsIn(finder, "abxab"), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(IdsIn(finder, "bcdef"), (std::vector<int32_t>{2}));
  EXPECT_EQ(IdsIn(finder, "bcde"), (std::vector<int32_t>{3}));
  EXPECT_EQ(IdsIn(finder, "<<<a"), (std::vector<int32_t>{5}));
  EXPECT_EQ(IdsIn(finder, "< a"), (std::vector<int32_t>{}));
}

TEST(AddedTokenFinder, SeesNothingWhereThereIsNothing) {
  const AddedTokenFinder none;
  EXPECT_EQ(none.FindNext("abc", 1).begin, 3u);
  EXPECT_EQ(none.FindNext("", 0).id, kNoToken);
  EXPECT_EQ(none.Find("abc"), kNoToken);
}

TEST(AddedTokenFinder, LooksUpExactContents) {
  const AddedTokenFinder finder = FinderOf({"<｜User｜>", "<think>", "\xC3\xA9"});
  EXPECT_EQ(finder.Find("<think>"), 1);
  EXPECT_EQ(finder.Find("<think"), kNoToken);
  EXPECT_EQ(finder.Find("é"), 2);
}

RC_GTEST_PROP(AddedTokenFinder, AgreesWithTryingEveryTokenAtEveryPlace, ()) {
  const auto word =
      rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'b', '\xEF')));
  const auto contents = *rc::gen::unique<std::vector<std::string>>(word);
  const auto text = *rc::gen::container<std::string>(rc::gen::element('a', 'b', '\xEF'));
  std::vector<int32_t> expected;
  for (size_t at = 0; at < text.size();) {
    size_t longest = 0;
    int32_t id = kNoToken;
    for (size_t i = 0; i < contents.size(); ++i) {
      if (text.compare(at, contents[i].size(), contents[i]) == 0 && contents[i].size() > longest) {
        longest = contents[i].size();
        id = static_cast<int32_t>(i);
      }
    }
    if (id != kNoToken) {
      expected.push_back(id);
    }
    at += std::max<size_t>(longest, 1);
  }
  RC_ASSERT(IdsIn(FinderOf(contents), text) == expected);
}

}  // namespace
}  // namespace cachalot
