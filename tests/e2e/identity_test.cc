// Same tokens, always: not a bit of the logits depends on how the prompt was cut into steps, on where
// state is kept or on the number of threads.
#include <gtest/gtest.h>

#include "e2e/program.h"

namespace cachalot::e2e {
namespace {

class Identity : public testing::TestWithParam<std::string> {};

TEST_P(Identity, OverChunksPrefillsAndThreads) {
  const std::string folder = InSource("tests/golden/" + GetParam());
  const TempFolder temp;
  for (const std::string& isa : MachineIsas()) {
    const auto logits = [&](std::vector<std::string> more) {
      std::vector<std::string> arguments = {
          "logits", "-m",         folder,  "--tokens", folder + "/golden/tokens.i32",
          "--out",  temp / "out", "--isa", isa};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Outcome outcome = Cachalot(arguments);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      return ReadAll(temp / "out");
    };
    const std::string wanted = logits({});
    ASSERT_FALSE(wanted.empty());
    if (isa == "ref") {  // slow, and the same for each token by its nature
      EXPECT_TRUE(logits({"--chunk", "37", "--prefill", "200", "-t", "1"}) == wanted);
      continue;
    }
    for (const char* chunk : {"1", "3", "64", "128", "200", "400"}) {
      EXPECT_TRUE(logits({"--chunk", chunk}) == wanted) << isa << " chunk " << chunk;
    }
    for (const char* prefill : {"0", "1", "5", "129", "300"}) {
      EXPECT_TRUE(logits({"--prefill", prefill, "--chunk", "100"}) == wanted)
          << isa << " prefill " << prefill;
    }
    for (const char* chunk : {"128", "99", "400"}) {
      EXPECT_TRUE(logits({"--state", "paged", "--chunk", chunk, "--prefill", "350"}) == wanted)
          << isa << " paged, chunk " << chunk;
    }
    for (const char* threads : {"1", "2", "3"}) {
      EXPECT_TRUE(logits({"-t", threads, "--chunk", "77"}) == wanted)
          << isa << " threads " << threads;
    }
    if (GetParam() != "dspark") {
      const std::string wanted_mtp = logits({"--head", "mtp"});
      EXPECT_TRUE(logits({"--head", "mtp", "--chunk", "3", "--prefill", "129"}) == wanted_mtp);
    } else {
      const std::string wanted_draft = logits({"--head", "dspark", "--anchor", "298"});
      EXPECT_TRUE(logits({"--head", "dspark", "--anchor", "298", "--chunk", "7"}) == wanted_draft);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Identity, testing::Values("native", "bf16", "w8a8", "dspark"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace cachalot::e2e
