#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cachalot {
namespace {

std::vector<std::string> Reversed(std::vector<const char*> argv) {
  return ReversedArguments(static_cast<int>(argv.size()), argv.data());
}

TEST(Flags, TakeUnderscoresForHyphensInNamesAlone) {
  EXPECT_THAT(Reversed({"cachalot", "run", "--max_tokens=4_0", "-p", "a_b", "--top_p", "0.5"}),
              testing::ElementsAre("0.5", "--top-p", "a_b", "-p", "--max-tokens=4_0", "run"));
}

TEST(Flags, LeaveAloneWhatFollowsTheDoubleDash) {
  EXPECT_THAT(Reversed({"cachalot", "--", "--a_b"}), testing::ElementsAre("--a_b", "--"));
}

TEST(Flags, AreNoneWithoutArguments) {
  EXPECT_THAT(Reversed({"cachalot"}), testing::IsEmpty());
  EXPECT_THAT(Reversed({}), testing::IsEmpty());
}

}  // namespace
}  // namespace cachalot
