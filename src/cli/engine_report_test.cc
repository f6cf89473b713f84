#include "cli/engine_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cachalot {
namespace {

using testing::HasSubstr;
using testing::Not;

RequestRecord Record(int64_t cached_tokens, double ttft, bool ok = true) {
  RequestRecord record;
  record.arrival = 10;
  record.token_times = {10 + ttft};
  record.end = 11;
  record.prompt_tokens = 100;
  record.cached_tokens = cached_tokens;
  record.ok = ok;
  return record;
}

EngineStats Stats(int64_t scale) {
  EngineStats stats;
  stats.scheduler = {.peak_running = 5,
                     .prompt_tokens = 1000 * scale,
                     .cached_tokens = 250 * scale,
                     .retractions = 3 * scale};
  stats.graph = {.captures = scale, .replays = 7 * scale};
  stats.times = {.steps = 10 * scale,
                 .plan = 10 * scale,
                 .commit = 30 * scale,
                 .execute = 900 * scale,
                 .sample = 50 * scale,
                 .publish = 10 * scale};
  return stats;
}

TEST(EngineReport, CountsWhatHappenedBetweenTwoStats) {
  const EngineReport report = MakeEngineReport({}, Stats(1), Stats(3), 1 << 20);
  EXPECT_EQ(report.peak_running, 5);
  EXPECT_EQ(report.retractions, 6);
  EXPECT_EQ(report.cached_share(), 0.25);
  EXPECT_EQ(report.graph.captures, 2);
  EXPECT_EQ(report.graph.replays, 14);
  EXPECT_EQ(report.times.steps, 20);
  EXPECT_EQ(report.ShareOfSteps(report.times.plan + report.times.commit), 0.04);
  EXPECT_EQ(report.ShareOfSteps(report.times.execute), 0.9);
}

TEST(EngineReport, ComparesRequestsThatFoundHalfTheirPromptWithThoseThatFoundNothing) {
  const std::vector<RequestRecord> records = {Record(0, 2),  Record(0, 4),  Record(49, 100),
                                              Record(50, 1), Record(99, 2), Record(0, 100, false)};
  const EngineReport report = MakeEngineReport(records, {}, {}, 0);
  EXPECT_DOUBLE_EQ(*report.hit_ttft, 1500);
  EXPECT_DOUBLE_EQ(*report.miss_ttft, 3000);
  EXPECT_THAT(FormatEngineReport(report),
              HasSubstr("Former over latter (%):                      50.00\n"));
  EXPECT_DOUBLE_EQ(ToJson(report)["hit_over_miss_ttft"].get<double>(), 0.5);
}

TEST(EngineReport, LeavesOutWhatNothingWasMeasuredOf) {
  const EngineReport report = MakeEngineReport({}, {}, {}, 0);
  EXPECT_EQ(report.cached_share(), 0);
  EXPECT_EQ(report.ShareOfSteps(0), 0);
  EXPECT_THAT(FormatEngineReport(report), Not(HasSubstr("TTFT")));
  EXPECT_FALSE(ToJson(report).contains("mean_hit_ttft_ms"));
}

}  // namespace
}  // namespace cachalot
