#include "backends/ascend/schedule_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/ascend/emulator_scene.h"

namespace cachalot::ascend {
namespace {

using testing::HasSubstr;

TEST(ScheduleProbe, AcceptsThePackageWhoseTablesTheHostMakes) {
  for (const char* cores : {"20", "24"}) {
    const EmulatorScene emulator({{"cores", cores}});
    RuntimeStream stream(*EmulatorScene::Open(), {});
    const Status status = CheckSchedules(stream);
    EXPECT_TRUE(status) << status.error().message;
  }
}

TEST(ScheduleProbe, NamesTheFirstWordThatDiffers) {
  Schedule of_host = {};
  of_host[8] = 1;
  Schedule of_device = of_host;
  of_device[900] = 7;  // unused
  EXPECT_TRUE(CompareSchedules(of_device, of_host));
  of_device[8] = 0;
  const Status status = CompareSchedules(of_device, of_host);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, StatusCode::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("word 8 is 0, expected 1"));
}

// Decoding, prefills in parts and drafts, with and without entries, from one request to forty.
TEST(ScheduleProbe, FindsTheTablesOfRandomStepsEqual) {
  const EmulatorScene emulator({{"schedule", "eager"}});
  RuntimeStream stream(*EmulatorScene::Open(), {});
  std::mt19937 random(1);
  const auto pick = [&](int32_t least, int32_t most) {
    return std::uniform_int_distribution<int32_t>(least, most)(random);
  };
  for (int step = 0; step < 1000; ++step) {
    std::vector<int32_t> starts = {0};
    std::vector<int32_t> lengths;
    const int32_t kind = pick(0, 2);
    for (int32_t requests = pick(1, 40); requests > 0; --requests) {
      const int32_t tokens = kind == 0 ? 1 : pick(1, kind == 1 ? 8 : 300);
      starts.push_back(starts.back() + tokens);
      lengths.push_back(tokens + pick(0, 1) * pick(0, 5000));
    }
    const int64_t ratio = std::vector<int64_t>{0, 4, 128}[static_cast<size_t>(pick(0, 2))];
    const ScheduleProblem problem = {
        .heads = 64, .tile_rows = 64, .cores = 24, .ratio = ratio, .top_k = ratio == 4 ? 512 : 0};
    const Result<Schedule> of_device = ScheduleOfDevice(stream, problem, starts, lengths);
    ASSERT_TRUE(of_device) << of_device.error().message;
    const Status equal = CompareSchedules(*of_device, BuildSchedule(problem, starts, lengths));
    ASSERT_TRUE(equal) << "step " << step << ": " << equal.error().message;
  }
}

}  // namespace
}  // namespace cachalot::ascend
