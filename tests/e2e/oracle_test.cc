// The program against the independent numpy model, on fresh random checkpoints, where that model
// lies beside the checkout. CACHALOT_ORACLE_SEEDS lists the seeds (default 1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <span>
#include <sstream>

#include "e2e/program.h"

namespace cachalot::e2e {
namespace {

constexpr size_t kVocab = 512;

std::vector<std::string> Seeds() {
  const char* list = std::getenv("CACHALOT_ORACLE_SEEDS");
  std::istringstream stream(list != nullptr ? list : "1");
  std::vector<std::string> seeds;
  for (std::string seed; std::getline(stream, seed, ',');) {
    seeds.push_back(seed);
  }
  return seeds;
}

struct Case {
  std::string layout;
  bool dspark;
};

class Oracle : public testing::TestWithParam<Case> {
 protected:
  void Expect(const std::string& what, const std::string& found, const std::string& wanted,
              size_t width, double median, double nine_in_ten) {
    const auto errors = RowErrors(ReadArray<float>(found), ReadArray<float>(wanted), width);
    ASSERT_FALSE(errors.empty()) << what << ": a file of another size";
    std::printf("%-32s median %.1e, nine in ten below %.1e\n", what.c_str(), Quantile(errors, 0.5),
                Quantile(errors, 0.9));
    EXPECT_LE(Quantile(errors, 0.5), median) << what;
    EXPECT_LE(Quantile(errors, 0.9), nine_in_ten) << what;
  }
};

// Ids agree up to the first position whose two best logits are within 2 %.
void ExpectSameDraft(const std::string& what, const std::vector<int32_t>& found,
                     const std::vector<int32_t>& wanted, const std::vector<float>& logits) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto row = std::span(logits).subspan(i * kVocab, kVocab);
    const float best = row[static_cast<size_t>(wanted[i])];
    float next = -HUGE_VALF;
    for (size_t id = 0; id < row.size(); ++id) {
      if (id != static_cast<size_t>(wanted[i])) {
        next = std::max(next, row[id]);
      }
    }
    if (best - next <= 0.02 * std::fabs(best)) {
      return;
    }
    EXPECT_EQ(found[i], wanted[i]) << what << " position " << i;
  }
}

TEST_P(Oracle, Agrees) {
  const std::string oracle = InSource("../shared/oracle/golden.py");
  if (!Exists(oracle)) {
    GTEST_SKIP() << "no ../shared/oracle";
  }
  const auto& [layout, dspark] = GetParam();
  for (const std::string& seed : Seeds()) {
    const TempFolder temp;
    const std::string folder = temp / "m";
    std::vector<std::string> make = {"/usr/bin/python3", oracle, folder, "--seed", seed,
                                     "--layout",         layout};
    if (dspark) {
      make.emplace_back("--dspark");
    }
    const Outcome made = RunTool(make);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const auto golden = [&](const std::string& name) { return folder + "/golden/" + name; };
    const std::string out = temp / "out";
    const auto logits = [&](std::vector<std::string> more) {
      std::vector<std::string> arguments = {
          "logits", "-m", folder, "--tokens", golden("tokens.i32"), "--out", out};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Outcome outcome = Cachalot(arguments);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    };
    const std::string name = layout + (dspark ? " dspark" : "") + " seed " + seed;

    logits({});
    Expect(name, out, golden("logits.exact.f32"), kVocab, 5e-3, 2e-2);
    if (layout == "w8a8") {
      // The published arithmetic is 1e-2 from the exact one in itself, by its own rounding of
      // activations.
      Expect(name + " official", out, golden("logits.official.f32"), kVocab, 1.2e-2, 3e-2);
    }
    if (dspark) {
      logits({"--head", "dspark", "--anchor", "398"});
      Expect(name + " draft", out, golden("dspark.exact.logits.f32"), kVocab, 1e-2, 4e-2);
      ExpectSameDraft(name, ReadArray<int32_t>(out + ".ids.i32"),
                      ReadArray<int32_t>(golden("dspark.exact.ids.i32")),
                      ReadArray<float>(golden("dspark.exact.logits.f32")));
    } else {
      logits({"--head", "mtp"});
      Expect(name + " mtp", out, golden("mtp.exact.f32"), kVocab, 1e-2, 4e-2);
    }
    logits({"--isa", "ref"});
    Expect(name + " ref", out, golden("logits.exact.f32"), kVocab, 3e-4, 2e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Oracle,
                         testing::Values(Case{"native", false}, Case{"bf16", false},
                                         Case{"w8a8", false}, Case{"native", true}),
                         [](const auto& test) {
                           return test.param.layout + (test.param.dspark ? "_dspark" : "");
                         });

}  // namespace
}  // namespace cachalot::e2e
