#include "base/result.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace cachalot {
namespace {

Result<int> HalfOf(int value) {
  if (value % 2 != 0) {
    return MakeError(StatusCode::kInvalidArgument, "{} is odd, expected an even number", value);
  }
  return value / 2;
}

Result<int> QuarterOf(int value) {
  CACHALOT_ASSIGN_OR_RETURN(const int half, HalfOf(value));
  CACHALOT_ASSIGN_OR_RETURN(const int quarter, HalfOf(half));
  return quarter;
}

Status CheckQuarter(int value) {
  CACHALOT_RETURN_IF_ERROR(QuarterOf(value));
  return {};
}

TEST(Result, CarriesTheValueThrough) { EXPECT_EQ(QuarterOf(12).value(), 3); }

TEST(Result, CarriesTheFirstErrorThrough) {
  const auto result = QuarterOf(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, StatusCode::kInvalidArgument);
  EXPECT_EQ(result.error().message, "3 is odd, expected an even number");
  EXPECT_FALSE(CheckQuarter(6));
  EXPECT_TRUE(CheckQuarter(8));
}

TEST(Result, EveryCodeHasATextAndANonZeroExitCode) {
#define CACHALOT_STATUS_CODE(name, text, exit_code)     \
  EXPECT_STREQ(StatusCodeText(StatusCode::name), text); \
  EXPECT_EQ(ExitCode(StatusCode::name), exit_code);     \
  EXPECT_GT(exit_code, 0);
#include "base/status_codes.def"
#undef CACHALOT_STATUS_CODE
}

TEST(Check, PrintsBothValuesAndAborts) {
  EXPECT_DEATH(CACHALOT_CHECK_EQ(2 + 2, 5), "2 \\+ 2 == 5: 4 against 5");
  EXPECT_DEATH(CACHALOT_CHECK(false, "slot {}", 7), "false: slot 7");
}

}  // namespace
}  // namespace cachalot
