// A device that fails at any of its waits: its requests end, all others and all later ones have the
// answers that they should (engine.E7).
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/step_loop_scene.h"

namespace cachalot {
namespace {

constexpr int64_t kMaxRunning = 2;

// Beginnings in common, more than can run at once, more pages than the cache has.
std::vector<Tokens> SomePrompts() {
  const Tokens beginning = RandomText(1, 280);
  return {beginning + RandomText(2, 20), RandomText(3, 270), beginning + RandomText(4, 100),
          RandomText(5, 40), RandomText(3, 270) + RandomText(6, 30)};
}

class DeviceFault : public testing::TestWithParam<bool> {
 protected:
  DeviceFault() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (GetParam() ? "device_fault_ahead" : "device_fault");
    std::filesystem::remove_all(folder_);
    StepLoopScene cold(Cold());
    for (const Tokens& prompt : SomePrompts()) {
      wanted_.push_back(AnswerBits(*ColdAnswer(cold, Ask(prompt, 4))));
    }
  }
  ~DeviceFault() override { std::filesystem::remove_all(folder_); }

  SceneSettings Settings() const {
    return {.max_running = kMaxRunning,
            .chunk = 256,
            .cache_tokens = 1024,
            .host_slots = {6, 6},
            .plan_ahead = GetParam()};
  }

  // Asks everything at once; returns how many failed. The others' answers are right.
  int64_t AskAll(StepLoopScene& scene) const {
    std::vector<std::shared_ptr<const Heard>> found;
    for (const Tokens& prompt : SomePrompts()) {
      found.push_back(scene.Submit(Ask(prompt, 4)));
    }
    scene.Drain();
    int64_t failed = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i]->orderly);
      if (found[i]->end == EndReason::kFailed) {
        ++failed;
      } else {
        EXPECT_TRUE(found[i]->ok());
        EXPECT_EQ(AnswerBits(*found[i]), wanted_[i]) << "request " << i;
      }
    }
    return failed;
  }

  std::string folder_;
  std::vector<std::vector<std::vector<uint32_t>>> wanted_;
};

std::string NameOfWay(const testing::TestParamInfo<bool>& info) {
  return info.param ? "PlanningAhead" : "StepByStep";
}
INSTANTIATE_TEST_SUITE_P(Ways, DeviceFault, testing::Bool(), NameOfWay);

TEST_P(DeviceFault, AtAnyWaitEndsTheRequestsOfItsStepAndNoOther) {
  StepLoopScene scene(Settings());
  EXPECT_EQ(AskAll(scene), 0);
  EXPECT_EQ(AskAll(scene), 0);
  const int64_t waits = scene.faults.waits;
  for (int64_t wait = 1; wait <= waits / 2; ++wait) {
    SCOPED_TRACE(wait);
    scene.faults.fail_at = scene.faults.waits + wait;
    const int64_t failed = AskAll(scene);
    if (scene.faults.waits >= scene.faults.fail_at) {
      EXPECT_GE(failed, 1);
    }
    EXPECT_LE(failed, kMaxRunning);
    scene.faults.fail_at = -1;
    EXPECT_EQ(AskAll(scene), 0);
  }
  EXPECT_EQ(scene.LeakReport(), "");
}

TEST_P(DeviceFault, LeavesNothingOnDiskThatItMayHaveSpoilt) {
  SceneSettings settings = Settings();
  settings.disk_folder = folder_;
  for (int64_t wait = 1; wait <= 6; ++wait) {
    SCOPED_TRACE(wait);
    std::filesystem::remove_all(folder_);
    {
      StepLoopScene scene(settings);
      scene.faults.fail_at = scene.faults.waits + wait;
      EXPECT_GE(AskAll(scene), 1);
    }
    StepLoopScene again(settings);
    EXPECT_EQ(AskAll(again), 0);
    EXPECT_EQ(again.LeakReport(), "");
  }
}

TEST_P(DeviceFault, WhileTheDiskIsReadLosesNoRequestThatWaits) {
  SceneSettings settings = Settings();
  settings.disk_folder = folder_;
  {
    StepLoopScene scene(settings);
    EXPECT_EQ(AskAll(scene), 0);
  }
  for (int64_t wait = 1; wait <= 6; ++wait) {
    SCOPED_TRACE(wait);
    StepLoopScene scene(settings);
    scene.faults.fail_at = scene.faults.waits + wait;
    EXPECT_LE(AskAll(scene), kMaxRunning);
    scene.faults.fail_at = -1;
    EXPECT_EQ(AskAll(scene), 0);
    EXPECT_EQ(scene.LeakReport(), "");
  }
}

// The host slot of a fetch that was planned, and not begun because the step before failed.
TEST_P(DeviceFault, KeepsNoHostSlotOfAPlanThatItDrops) {
  SceneSettings settings = Settings();
  settings.disk_folder = folder_;
  settings.host_slots = {1, 1};
  const Tokens stored = RandomText(7, 150);
  {
    StepLoopScene scene(settings);
    scene.Answer(Ask(stored, 1));
  }
  StepLoopScene scene(settings);
  const auto running = scene.Submit(Ask(RandomText(8, 20), 100));
  while (running->ids.size() < 3) {
    scene.Step();
  }
  scene.faults.fail_at = scene.faults.waits + 1;
  const auto fetches = scene.Submit(Ask(stored, 1));
  scene.Drain();
  EXPECT_EQ(running->end, EndReason::kFailed);
  EXPECT_TRUE(fetches->ok());
  // The cache is filled by other texts: what was there goes to the host tier, if that has a slot.
  scene.Answer(Ask(RandomText(9, 900), 1));
  scene.Answer(Ask(RandomText(10, 900), 1));
  EXPECT_EQ(scene.prefix_stats().host_pages, 1);
  EXPECT_EQ(scene.LeakReport(), "");
}

}  // namespace
}  // namespace cachalot
