#include "cli/serving_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cachalot {
namespace {

using testing::HasSubstr;

TEST(Percentile, GoesBetweenNeighbours) {
  const std::vector<double> values = {10, 20, 40, 80};
  EXPECT_EQ(Percentile(values, 0), 10);
  EXPECT_EQ(Percentile(values, 0.5), 30);
  EXPECT_NEAR(Percentile(values, 0.99), 78.8, 1e-12);  // 2.97: 40 + 0.97 * 40
  EXPECT_EQ(Percentile(values, 1), 80);
  EXPECT_EQ(Percentile(std::vector<double>{7}, 0.99), 7);
}

// Three good ones and one that failed, times easy to reckon with.
std::vector<RequestRecord> Records() {
  return {{.arrival = 10,
           .end = 10.75,
           .token_times = {10.25, 10.5, 10.75},
           .prompt_tokens = 100,
           .cached_tokens = 50,
           .ok = true},
          {.arrival = 11,
           .end = 12.0,
           .token_times = {11.5, 12.0},
           .prompt_tokens = 60,
           .cached_tokens = 0,
           .ok = true},
          {.arrival = 12,
           .end = 12.125,
           .token_times = {12.125},
           .prompt_tokens = 40,
           .cached_tokens = 30,
           .ok = true},
          {.arrival = 12,
           .end = 14,
           .token_times = {13},
           .prompt_tokens = 1000,
           .cached_tokens = 9,
           .ok = false}};
}

TEST(ServingReport, CountsAndTimesWhatWasServed) {
  const ServingReport report = MakeServingReport(Records(), {});
  EXPECT_EQ(report.completed, 3);
  EXPECT_EQ(report.failed, 1);
  EXPECT_EQ(report.duration, 4);
  EXPECT_EQ(report.input_tokens, 200);
  EXPECT_EQ(report.output_tokens, 6);
  EXPECT_EQ(report.cached_share(), 0.4);
  EXPECT_EQ(report.PerSecond(report.completed), 0.75);
  EXPECT_FALSE(report.good);
  // 250, 500, 125
  EXPECT_NEAR(report.ttft->mean, 875.0 / 3, 1e-9);
  EXPECT_EQ(report.ttft->median, 250);
  EXPECT_NEAR(report.ttft->p99, 495, 1e-9);
  // 250, 500; a single token has none
  EXPECT_EQ(report.tpot->mean, 375);
  EXPECT_EQ(report.tpot->median, 375);
  EXPECT_NEAR(report.tpot->p99, 497.5, 1e-9);
  // 250, 250, 500
  EXPECT_NEAR(report.itl->mean, 1000.0 / 3, 1e-9);
  EXPECT_EQ(report.itl->median, 250);
  EXPECT_NEAR(report.itl->p99, 495, 1e-9);
  // 750, 1000, 125
  EXPECT_EQ(report.e2el->mean, 625);
  EXPECT_EQ(report.e2el->median, 750);
  EXPECT_NEAR(report.e2el->p99, 995, 1e-9);
}

TEST(ServingReport, CountsWhatIsWithinTheLimits) {
  const auto good = [](const GoodputLimits& limits) {
    return MakeServingReport(Records(), limits).good.value();
  };
  EXPECT_EQ(good({.ttft = 250}), 2);
  EXPECT_EQ(good({.ttft = 249}), 1);
  EXPECT_EQ(good({.tpot = 499}), 2);
  EXPECT_EQ(good({.e2el = 750}), 2);
  EXPECT_EQ(good({.ttft = 200, .tpot = 499, .e2el = 1000}), 1);
  EXPECT_EQ(good({.ttft = 0}), 0);
}

TEST(ServingReport, IsABlockThatPeopleKnow) {
  EXPECT_EQ(FormatServingReport(MakeServingReport(Records(), {.ttft = 250})),
            R"(============ Serving Benchmark Result ============
Successful requests:                             3
Failed requests:                                 1
Benchmark duration (s):                       4.00
Total input tokens:                            200
Total generated tokens:                          6
Cached input tokens (%):                     40.00
Request throughput (req/s):                   0.75
Request goodput (req/s):                      0.50
Output token throughput (tok/s):              1.50
Total token throughput (tok/s):              51.50
---------------Time to First Token----------------
Mean TTFT (ms):                             291.67
Median TTFT (ms):                           250.00
P99 TTFT (ms):                              495.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                             375.00
Median TPOT (ms):                           375.00
P99 TPOT (ms):                              497.50
---------------Inter-token Latency----------------
Mean ITL (ms):                              333.33
Median ITL (ms):                            250.00
P99 ITL (ms):                               495.00
----------------End-to-end Latency----------------
Mean E2EL (ms):                             625.00
Median E2EL (ms):                           750.00
P99 E2EL (ms):                              995.00
==================================================
)");
}

TEST(ServingReport, IsJson) {
  const OrderedJson json = ToJson(MakeServingReport(Records(), {.e2el = 750}));
  EXPECT_EQ(json["completed"], 3);
  EXPECT_EQ(json["total_output_tokens"], 6);
  EXPECT_EQ(json["request_goodput"], 0.5);
  EXPECT_EQ(json["output_throughput"], 1.5);
  EXPECT_EQ(json["median_ttft_ms"], 250);
  EXPECT_EQ(json["mean_e2el_ms"], 625);
  EXPECT_EQ(json.size(), 11U + 4 * 3);
}

TEST(ServingReport, LeavesOutWhatWasNotMeasured) {
  RequestRecord failed = {.arrival = 1, .end = 1};
  for (const auto& records : {std::vector<RequestRecord>{}, std::vector<RequestRecord>{failed}}) {
    const ServingReport report = MakeServingReport(records, {});
    EXPECT_EQ(report.completed, 0);
    EXPECT_EQ(report.PerSecond(5), 0);
    EXPECT_FALSE(report.ttft || report.tpot || report.itl || report.e2el);
    EXPECT_FALSE(ToJson(report).contains("mean_ttft_ms"));
    EXPECT_THAT(FormatServingReport(report), testing::Not(HasSubstr("TTFT")));
  }
}

TEST(GoodputLimits, AreReadFromFlags) {
  const auto limits = ParseGoodputLimits(std::vector<std::string>{"ttft:500", "e2el:1e4"}).value();
  EXPECT_EQ(limits.ttft, 500);
  EXPECT_EQ(limits.e2el, 10000);
  EXPECT_FALSE(limits.tpot);
  for (const char* text :
       {"", "ttft", "ttft:", "ttft:x", "ttft:-1", "ttft:nan", "itl:5", "tpot:5 "}) {
    const std::vector<std::string> flags = {"e2el:5", text};
    EXPECT_EQ(
        ParseGoodputLimits(flags).error().message,
        fmt::format("--goodput has \"{}\", expected ttft:MS, tpot:MS or e2el:MS, each once", text));
  }
  EXPECT_FALSE(ParseGoodputLimits(std::vector<std::string>{"ttft:5", "ttft:6"}));
}

}  // namespace
}  // namespace cachalot
