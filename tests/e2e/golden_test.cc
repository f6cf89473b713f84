// The program's logits against the committed goldens (tests/golden/README.md), for every
// instruction set of the machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"

namespace cachalot::e2e {
namespace {

constexpr size_t kVocab = 256;

struct Bounds {
  double median;
  double nine_in_ten;
};

// The reference differs from float64 by float32 storage, the kernels also by bfloat16 rope parts in
// the cache. The published W8A8 arithmetic is itself 1e-2 from the exact one that the engine
// computes: rounding noise of int8.
constexpr Bounds kRef = {3e-4, 2e-3};
constexpr Bounds kKernels = {5e-3, 2e-2};
constexpr Bounds kTiles = {4e-3, 2e-2};  // inputs of all products in bfloat16
constexpr Bounds kOfficial = {1.3e-2, 3e-2};

void ExpectWithin(const std::string& what, const std::string& found, const std::string& wanted,
                  size_t width, Bounds bounds) {
  const auto errors = RowErrors(ReadArray<float>(found), ReadArray<float>(wanted), width);
  ASSERT_FALSE(errors.empty()) << what << ": a file of another size";
  EXPECT_LE(Quantile(errors, 0.5), bounds.median) << what;
  EXPECT_LE(Quantile(errors, 0.9), bounds.nine_in_ten) << what;
  std::printf("%-24s median %.1e, nine in ten below %.1e\n", what.c_str(), Quantile(errors, 0.5),
              Quantile(errors, 0.9));
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return InSource("tests/golden/" + GetParam()); }
  std::string golden(const std::string& name) const { return folder() + "/golden/" + name; }

  std::string Logits(const std::string& isa, std::vector<std::string> more = {}) {
    const std::string out = temp_ / "logits.f32";
    std::vector<std::string> arguments = {
        "logits", "-m", folder(), "--tokens", golden("tokens.i32"), "--out", out, "--isa", isa};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = Cachalot(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return out;
  }

  TempFolder temp_;
};

Bounds BoundsOf(const std::string& isa) {
  return isa == "ref" ? kRef : isa == "amx" ? kTiles : kKernels;
}

TEST_P(Golden, MainLogitsAgree) {
  for (const std::string& isa : MachineIsas()) {
    const std::string out = Logits(isa);
    ExpectWithin(GetParam() + " " + isa, out, golden("logits.exact.f32"), kVocab, BoundsOf(isa));
    if (Exists(golden("logits.official.f32"))) {
      ExpectWithin(GetParam() + " " + isa + " official", out, golden("logits.official.f32"), kVocab,
                   kOfficial);
    }
  }
}

TEST_P(Golden, DraftLogitsAgree) {
  for (const std::string& isa : MachineIsas()) {
    const Bounds once = BoundsOf(isa);
    const Bounds twice = {2 * once.median, 2 * once.nine_in_ten};
    if (Exists(golden("mtp.exact.f32"))) {
      ExpectWithin(GetParam() + " " + isa + " mtp", Logits(isa, {"--head", "mtp"}),
                   golden("mtp.exact.f32"), kVocab, twice);
      continue;
    }
    const std::string out = Logits(isa, {"--head", "dspark", "--anchor", "298"});
    ExpectWithin(GetParam() + " " + isa + " dspark", out, golden("dspark.exact.logits.f32"), kVocab,
                 twice);
    EXPECT_EQ(ReadArray<int32_t>(out + ".ids.i32"),
              ReadArray<int32_t>(golden("dspark.exact.ids.i32")));
    const auto wanted = ReadArray<float>(golden("dspark.exact.confidence.f32"));
    ExpectWithin(GetParam() + " " + isa + " confidence", out + ".confidence.f32",
                 golden("dspark.exact.confidence.f32"), wanted.size(), twice);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Golden, testing::Values("native", "bf16", "w8a8", "dspark"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace cachalot::e2e
