// Shortages at odd times: at every step of a busy scene somebody else holds what a pool has free.
// Nobody reads a wrong row (SchedulerScene checks), everybody ends with the answer that it would
// have had anyway, and every page comes home.
#include <gtest/gtest.h>

#include <optional>

#include "cache/page_thief.h"
#include "cache/paged_state.h"
#include "scheduler/scheduler_scene.h"

namespace cachalot {
namespace {

SchedulerOptions PagedOptions() {
  SchedulerOptions options = TightOptions(30, 4);
  options.prefix.enabled = false;
  options.geometry.c4_state_pages = PagedStatePages(4, 4, options.chunk_tokens);
  options.geometry.c128_state_pages = PagedStatePages(128, 4, options.chunk_tokens);
  return options;
}

SchedulerOptions BusyOptions(int64_t host_pages) {
  SchedulerOptions options = TightOptions(30, 4);
  options.geometry.c128_page_entries = 4;
  options.geometry.c128_pages = 16;
  options.prefix.host_slots = {host_pages, host_pages};
  return options;
}

// Prompts that share beginnings, of which some come while others run.
void SubmitSome(SchedulerScene& scene, int step) {
  if (step % 3 == 0 && step < 30) {
    const int32_t kind = step / 3;
    scene.Submit(Text(kind % 3, 128 * (kind % 4) + 60) + Text(10 + kind, 150),
                 {.max_new_tokens = 40 + 20 * (kind % 3), .priority = kind == 7 ? 1 : 0});
  }
}

std::map<RequestId, Tokens> RunAll(SchedulerScene& scene, int short_step,
                                   std::optional<CachePool> pool) {
  for (int step = 0; step < 30 || !scene.scheduler.idle(); ++step) {
    SubmitSome(scene, step);
    if (step != short_step) {
      scene.Step();
    } else if (pool) {
      // A request alone is promised enough: a chunk and a token for each.
      const PageThief thief(scene.cache(), *pool, 4);
      scene.Plan();
      scene.Execute();
    } else {
      std::vector<RequestSlot> taken;
      while (const auto slot = scene.cache().TakeRequest()) {
        taken.push_back(*slot);
      }
      scene.Plan();
      scene.Execute();
      for (const RequestSlot slot : taken) {
        scene.cache().Free(slot);
      }
    }
    if (step == short_step) {
      scene.CompleteAll();
    }
    if (testing::Test::HasFatalFailure() || step > 5000) {
      ADD_FAILURE() << "after " << step << " steps";
      break;
    }
  }
  scene.Drain();
  return scene.tokens;
}

TEST(SchedulerFault, SurvivesAShortageOfAnyPoolAtAnyStep) {
  SchedulerScene calm(RoomyOptions());
  const auto expected = RunAll(calm, -1, std::nullopt);
  int64_t retractions = 0;
  for (const int64_t host_pages : {0, 12}) {
    for (const auto& pool : {std::optional(CachePool::kFull), std::optional(CachePool::kSwa),
                             std::optional(CachePool::kC128), std::optional<CachePool>()}) {
      for (int short_step = 0; short_step < 60; ++short_step) {
        SchedulerScene scene(BusyOptions(host_pages));
        ASSERT_EQ(RunAll(scene, short_step, pool), expected)
            << (pool ? NameOf(*pool) : "requests") << " at step " << short_step;
        retractions += scene.scheduler.stats().retractions;
      }
    }
  }
  EXPECT_GT(retractions, 100);
}

TEST(SchedulerFault, SurvivesAShortageOfPagesOfStateAtAnyStep) {
  SchedulerScene calm(RoomyOptions());
  const auto expected = RunAll(calm, -1, std::nullopt);
  int64_t retractions = 0;
  for (const CachePool pool : {CachePool::kFull, CachePool::kC4State, CachePool::kC128State}) {
    for (int short_step = 0; short_step < 60; ++short_step) {
      SchedulerScene scene(PagedOptions());
      ASSERT_EQ(RunAll(scene, short_step, pool), expected)
          << NameOf(pool) << " at step " << short_step;
      retractions += pool == CachePool::kFull ? 0 : scene.scheduler.stats().retractions;
    }
  }
  EXPECT_GT(retractions, 10);
}

// A step fails: those in it end, those who wait are served as if nothing had been.
TEST(SchedulerFault, GoesOnAfterAFailureAtAnyStep) {
  for (int failing = 0; failing < 60; ++failing) {
    SchedulerScene scene(BusyOptions(12));
    for (int step = 0; step < 30 || !scene.scheduler.idle(); ++step) {
      SubmitSome(scene, step);
      if (step == failing) {
        scene.Plan();
        scene.Note(scene.scheduler.Fail());
        ASSERT_EQ(scene.scheduler.stats().running, 0);
      } else {
        scene.Step();
      }
      ASSERT_LT(step, 5000);
    }
    ASSERT_EQ(scene.ended.size(), 10u);
    ASSERT_EQ(scene.scheduler.LeakReport(), "");
  }
}

}  // namespace
}  // namespace cachalot
