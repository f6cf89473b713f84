// `cachalot bench serving` over the shipped model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/program.h"
#include "io/json.h"

namespace cachalot::e2e {
namespace {

using testing::HasSubstr;

const std::string kCalf = InSource("models/calf");

Outcome BenchServing(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"bench", "serving", "-m", kCalf, "--num-prompts", "8"});
  return Cachalot(arguments);
}

TEST(BenchServing, CountsWhatItSent) {
  const Outcome outcome =
      BenchServing({"--random_input_len", "300", "--random-output-len", "5", "--prefix-share",
                    "0.9", "--prefix-len", "256", "--request-rate", "200", "--max-running", "4",
                    "--warmup", "2", "--goodput", "e2el:1e9", "--goodput", "tpot:1e9", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = *ParseJson(outcome.out, "bench serving");
  EXPECT_EQ(json["completed"], 8);
  EXPECT_EQ(json["failed"], 0);
  EXPECT_EQ(json["total_input_tokens"], 8 * 300);
  EXPECT_EQ(json["total_output_tokens"], 8 * 5);
  EXPECT_EQ(json["request_goodput"], json["request_throughput"]);
  EXPECT_EQ(json["request_rate"], "200");
  EXPECT_GT(json["mean_ttft_ms"], 0);
  const Json& engine = json["engine"];
  EXPECT_EQ(engine["prompt_tokens"], 8 * 300);
  EXPECT_EQ(engine["cached_tokens"], json["cached_tokens"]);
  // All but the first find the prefix's two pages.
  EXPECT_EQ(engine["cached_tokens"], 7 * 256);
  EXPECT_THAT(engine["peak_running"].get<int64_t>(),
              testing::AllOf(testing::Ge(1), testing::Le(4)));
  EXPECT_GT(engine["step_time_ns"]["execute"], 0);
}

TEST(BenchServing, PrintsTheBlockThatPeopleKnow) {
  const Outcome outcome =
      BenchServing({"--random-input-len", "10-40", "--random-output-len", "2", "--max-concurrency",
                    "2", "--no-prefix-cache", "--graph", "off"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Successful requests:                             8\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Mean TTFT (ms):"));
  EXPECT_THAT(outcome.out, HasSubstr("Peak running requests:"));
  EXPECT_THAT(outcome.out, HasSubstr("Steps replayed as graphs:                        0\n"));
}

TEST(BenchServing, NamesWhatDoesNotFit) {
  EXPECT_THAT(BenchServing({"-c", "64", "--random-input-len", "60"}).err,
              HasSubstr("188 tokens with its answer, but the context holds 64"));
  EXPECT_THAT(BenchServing({"--cache-bytes", "1K"}).err, HasSubstr("expected at least"));
  EXPECT_THAT(BenchServing({"--goodput", "soon"}).err, HasSubstr("--goodput"));
}

}  // namespace
}  // namespace cachalot::e2e
