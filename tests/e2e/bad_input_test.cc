// Bad input gets one clear line on stderr and a non-zero exit, whatever part it meets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "e2e/program.h"

namespace cachalot::e2e {
namespace {

using testing::HasSubstr;

const std::string kCalf = InSource("models/calf");

void ExpectOneLine(const Outcome& outcome, const std::string& part) {
  EXPECT_GT(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_THAT(outcome.out, testing::IsEmpty());
}

class BrokenCheckpoint : public testing::Test {
 protected:
  BrokenCheckpoint() { std::filesystem::copy(kCalf, temp_ / "m"); }

  std::string file(const std::string& name) const { return temp_ / "m" + "/" + name; }
  void Replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = ReadAll(file(name));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    WriteAll(file(name), text.replace(at, from.size(), to));
  }
  Outcome RunIt() const { return Cachalot({"run", "-m", temp_ / "m", "-p", "Hi", "-n", "2"}); }

  TempFolder temp_;
};

TEST_F(BrokenCheckpoint, WithoutItsFiles) {
  std::filesystem::remove(file("config.json"));
  ExpectOneLine(RunIt(), "config.json: cannot open: No such file");
  ExpectOneLine(Cachalot({"run", "-m", temp_ / "nowhere", "-p", "Hi"}), "nowhere/config.json");
}

TEST_F(BrokenCheckpoint, WithoutWeightsOrTokenizer) {
  std::filesystem::remove(file("model.safetensors"));
  ExpectOneLine(RunIt(), "safetensors");
  std::filesystem::remove(file("tokenizer.json"));
  ExpectOneLine(RunIt(), "tokenizer.json: cannot open");
}

TEST_F(BrokenCheckpoint, WithATruncatedWeightFile) {
  const auto size = std::filesystem::file_size(file("model.safetensors"));
  std::filesystem::resize_file(file("model.safetensors"), size - 1000);
  ExpectOneLine(RunIt(), "model.safetensors");
}

TEST_F(BrokenCheckpoint, WithABrokenTokenizer) {
  WriteAll(file("tokenizer.json"), ReadAll(file("tokenizer.json")).substr(0, 5000));
  ExpectOneLine(RunIt(), "tokenizer.json");
}

TEST_F(BrokenCheckpoint, WithAnOddConfig) {
  Replace("config.json", "\"head_dim\": 128", "\"head_dim\": -128");
  ExpectOneLine(RunIt(), "head_dim");
}

TEST_F(BrokenCheckpoint, WithAnUnknownRatio) {
  Replace("config.json", "    4,\n    128,", "    4,\n    64,");
  ExpectOneLine(RunIt(), "compress_ratios");
}

TEST_F(BrokenCheckpoint, WithABrokenWordingOrSampling) {
  WriteAll(file("generation_config.json"), "{\"top_p\": 7}");
  ExpectOneLine(RunIt(), "generation_config.json: top_p is 7, expected 0 to 1");
  std::filesystem::remove(file("generation_config.json"));
  WriteAll(file("prompt_format.json"), "{");
  ExpectOneLine(RunIt(), "prompt_format.json: JSON damaged");
}

TEST(BadInput, TokensForLogits) {
  const TempFolder temp;
  const auto logits = [&](const std::vector<int32_t>& ids, std::vector<std::string> more = {}) {
    WriteAll(temp / "ids", std::string(reinterpret_cast<const char*>(ids.data()), 4 * ids.size()));
    std::vector<std::string> arguments = {"logits",     "-m",    kCalf,       "--tokens",
                                          temp / "ids", "--out", temp / "out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Cachalot(arguments);
  };
  ExpectOneLine(logits({1, 4096}), "token 1 of the input has id 4096, expected 0 to 4095");
  ExpectOneLine(logits({-1}), "token 0 of the input has id -1");
  ExpectOneLine(logits({}), "0 bytes, expected little-endian int32 ids");
  ExpectOneLine(logits(std::vector<int32_t>(65537, 3)),
                "65537 tokens, but the model's context is 65536");
  ExpectOneLine(logits({3, 4}, {"--head", "dspark", "--anchor", "0"}), "has no DSpark stages");
  ExpectOneLine(logits({3, 4}, {"--anchor", "0"}), "--anchor goes with --head dspark, not main");
  WriteAll(temp / "odd", "abc");
  ExpectOneLine(Cachalot({"logits", "-m", kCalf, "--tokens", temp / "odd", "--out", temp / "out"}),
                "odd: 3 bytes, expected little-endian int32 ids");
  WriteAll(temp / "ids", std::string(4, '\0'));
  ExpectOneLine(
      Cachalot({"logits", "-m", kCalf, "--tokens", temp / "ids", "--out", temp / "no/such/folder"}),
      "no/such/folder: cannot create");
}

TEST(BadInput, AnchorsOfDrafts) {
  const std::string folder = InSource("tests/golden/dspark");
  const TempFolder temp;
  for (const char* anchor : {"299", "4000"}) {
    ExpectOneLine(Cachalot({"logits", "-m", folder, "--tokens", folder + "/golden/tokens.i32",
                            "--out", temp / "out", "--head", "dspark", "--anchor", anchor}),
                  std::string("--anchor is ") + anchor + ", expected 0 to 298");
  }
}

TEST(BadInput, PromptsAndContexts) {
  ExpectOneLine(Cachalot({"run", "-m", kCalf, "-p", "caf\xE9"}), "UTF-8");
  ExpectOneLine(Cachalot({"run", "-m", kCalf, "-p", "Hi", "-c", "70000"}),
                "a context of 70000 tokens asked for, expected 1 to the model's 65536");
  ExpectOneLine(Cachalot({"run", "-m", kCalf, "-p", "Say this again, please: 1 2 3", "-c", "8"}),
                "of the context's 8");
  ExpectOneLine(Cachalot({"run", "-m", kCalf}), "expected either -p TEXT or chat");
  ExpectOneLine(Cachalot({"run", "-m", kCalf, "-p", "Hi", "--think", "--no-think"}),
                "exclude each other");
  ExpectOneLine(Cachalot({"run", "-m", kCalf, "-p", "Hi", "--think", "--effort", "max"}), "max");
}

TEST(BadInput, Flags) {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = Cachalot(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  refused({}, "subcommand");
  refused({"run", "-m", kCalf, "-p", "Hi", "--wings"}, "--wings");
  refused({"run", "-p", "Hi"}, "--model is required");
  refused({"run", "-m", kCalf, "-p", "Hi", "-t", "0"}, "threads");
  refused({"run", "-m", kCalf, "-p", "Hi", "-t", "many"}, "threads");
  refused({"run", "-m", kCalf, "-p", "Hi", "--top-p", "2"}, "top-p");
  refused({"logits", "-m", kCalf, "--tokens", "a", "--out", "b", "--head", "tail"}, "tail");
  refused({"bench", "throughput", "-m", kCalf, "-b", "513"}, "batch");
  refused({"bench", "throughput", "-m", kCalf, "-n", "0"}, "n-gen");
  ExpectOneLine(Cachalot({"--log-level", "loud", "run", "-m", kCalf, "-p", "Hi"}),
                "log level \"loud\"");
  ExpectOneLine(Cachalot({"run", "-m", kCalf, "-p", "Hi", "--isa", "mmx"}),
                "instruction set \"mmx\" is none of ref, avx2, avx512, amx");
}

TEST(BadInput, SynthIntoAFullFolder) {
  ExpectOneLine(Cachalot({"synth", "--shape", "nano", "-o", kCalf}), "calf");
  const TempFolder temp;
  ExpectOneLine(Cachalot({"synth", "--shape", "giant", "-o", temp / "x"}), "giant");
}

}  // namespace
}  // namespace cachalot::e2e
