#include "backends/cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace cachalot::cpu {
namespace {

using ::testing::HasSubstr;

// Sets or clears CACHALOT_MAX_ISA for one test.
class Cap {
 public:
  explicit Cap(const char* value) { ::setenv(kName, value, 1); }
  Cap(const Cap&) = delete;
  Cap& operator=(const Cap&) = delete;
  ~Cap() { ::unsetenv(kName); }

 private:
  static constexpr const char* kName = "CACHALOT_MAX_ISA";
};

TEST(Isa, ParsesTheNamesThatItPrints) {
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    const auto parsed = ParseIsa(NameOf(isa));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, isa);
  }
  for (const char* name : {"", "AVX2", "sse", "avx512 "}) {
    const auto parsed = ParseIsa(name);
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().message, HasSubstr("none of ref, avx2, avx512, amx"));
  }
}

TEST(Isa, ChoosesTheBestWhereNothingIsAsked) {
  ::unsetenv("CACHALOT_MAX_ISA");
  const auto chosen = ChooseIsa("");
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, DetectIsa());
}

TEST(Isa, KeepsUnderTheCapOfTheEnvironment) {
  {
    const Cap cap("ref");
    EXPECT_EQ(*ChooseIsa(""), Isa::kRef);
  }
  {
    const Cap cap("amx");  // a cap is no wish: a lesser machine runs what it has
    EXPECT_EQ(*ChooseIsa(""), DetectIsa());
  }
  const Cap cap("fast");
  const auto chosen = ChooseIsa("");
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code, StatusCode::kInvalidArgument);
  EXPECT_THAT(chosen.error().message, HasSubstr("CACHALOT_MAX_ISA: instruction set \"fast\""));
}

TEST(Isa, TakesARequestThatTheMachineHasAndRefusesOthers) {
  const Cap cap("ref");  // of no account beside a request
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    const auto chosen = ChooseIsa(NameOf(isa));
    ASSERT_EQ(static_cast<bool>(chosen), isa <= DetectIsa()) << NameOf(isa);
    if (chosen) {
      EXPECT_EQ(*chosen, isa);
    } else {
      EXPECT_EQ(chosen.error().code, StatusCode::kUnsupported);
      EXPECT_THAT(chosen.error().message, HasSubstr("this machine runs"));
    }
  }
  EXPECT_FALSE(ChooseIsa("fast"));
}

}  // namespace
}  // namespace cachalot::cpu
