#include "cli/progress.h"

#include <gtest/gtest.h>

namespace cachalot {
namespace {

TEST(ProgressBar, ShowsShareAndCounts) {
  EXPECT_EQ(ProgressBar::Line("prompt", 1, 4, "tokens", 200),
            "prompt [##########                              ]  25% 1/4 tokens");
  EXPECT_EQ(ProgressBar::Line("loading", 1'500'000'000, 3'000'000'000, "B", 60),
            "loading [################                 ]  50% 1.5/3.0 GB");
}

TEST(ProgressBar, FitsNarrowTerminalsAndOddCounts) {
  EXPECT_LT(ProgressBar::Line("prompt", 3, 4, "tokens", 40).size(), 40U);
  EXPECT_EQ(ProgressBar::Line("p", 3, 4, "tokens", 5), "p []  75% 3/4 tokens");
  EXPECT_EQ(ProgressBar::Line("p", 9, 4, "t", 5), "p [] 100% 9/4 t");
  EXPECT_EQ(ProgressBar::Line("p", 0, 0, "t", 5), "p [] 100% 0/0 t");
}

}  // namespace
}  // namespace cachalot
