#include "threads/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cachalot {
namespace {

TEST(Range, PartsCoverTheWholeInOrder) {
  for (const int64_t total : {0, 1, 5, 7, 100}) {
    for (const int64_t parts : {1, 2, 3, 8}) {
      int64_t next = 0;
      for (int64_t index = 0; index < parts; ++index) {
        const Range part = Range::Part(total, index, parts);
        EXPECT_EQ(part.begin, next);
        next = part.end;
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(ThreadPool, VisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const int64_t total : {0, 1, 2, 17, 1000}) {
      std::vector<int> visits(static_cast<size_t>(total), 0);
      pool.ParallelFor(total, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          ++visits[static_cast<size_t>(i)];
        }
      });
      EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
    }
  }
}

TEST(ThreadPool, CallsEveryThreadInEveryRound) {
  ThreadPool pool(4);
  std::vector<int64_t> calls(4, 0);
  for (int round = 0; round < 2000; ++round) {
    pool.Run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
  }
  EXPECT_EQ(calls, std::vector<int64_t>(4, 2000));
}

// Of this process, as the system counts them.
int64_t CountThreads() {
  using Iterator = std::filesystem::directory_iterator;
  return std::distance(Iterator("/proc/self/task"), Iterator());
}

TEST(ThreadPool, LeavesNoThreadBehind) {
  const int64_t before = CountThreads();
  std::atomic<int> sum = 0;
  for (int i = 0; i < 1000; ++i) {
    ThreadPool pool(3);
    if (i % 2 == 0) {
      pool.Run([&](int thread) { sum += thread; });
    }
  }
  EXPECT_EQ(sum, 500 * 3);
  EXPECT_EQ(CountThreads(), before);
}

TEST(ThreadPool, RunsTeamsLargerThanTheMachine) {
  ThreadPool pool(128);
  EXPECT_EQ(pool.num_threads(), 128);
  std::vector<int> calls(128, 0);
  for (int round = 0; round < 50; ++round) {
    pool.Run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
  }
  EXPECT_EQ(calls, std::vector<int>(128, 50));
}

// What every thread wrote in a round is there for every thread in the next.
TEST(ThreadPool, RoundsSeeAllOfTheRoundBefore) {
  ThreadPool pool(7);
  std::vector<int64_t> values(7, 1);
  std::vector<int64_t> sums(7, 0);
  for (int round = 0; round < 20; ++round) {
    pool.Run([&](int thread) {
      int64_t sum = 0;
      for (const int64_t value : values) {
        sum += value;
      }
      sums[static_cast<size_t>(thread)] = sum;
    });
    pool.Run([&](int thread) {
      const auto index = static_cast<size_t>(thread);
      values[index] = sums[(index + 1) % sums.size()] % 1000;
    });
  }
  EXPECT_EQ(values, std::vector<int64_t>(7, values[0]));
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(3);
  std::atomic<int> calls = 0;
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.Run([&](int thread) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2 * thread));
      ++calls;
    });
  }
  EXPECT_EQ(calls, 15);
}

TEST(ThreadPool, TeamsOfDifferentThreadsRunSideBySide) {
  std::atomic<int> calls = 0;
  const auto work = [&] {
    ThreadPool pool(2);
    for (int round = 0; round < 100; ++round) {
      pool.Run([&](int) { ++calls; });
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(calls, 400);
}

TEST(ThreadPoolDeathTest, RefusesToRunWithinARun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.Run([&](int) { pool.Run([](int) {}); });
      },
      "one call at a time");
}

TEST(ThreadPoolDeathTest, EndsTheProgramOnAnException) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int thrower : {0, 1}) {
    EXPECT_DEATH(
        {
          ThreadPool pool(2);
          pool.Run([&](int thread) {
            if (thread == thrower) {
              throw std::runtime_error("from a body");
            }
          });
        },
        "from a body");
  }
}

TEST(Placement, GivesEachThreadAProcessorOfItsOwn) {
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  if (allowed.size() < 2) {
    GTEST_SKIP() << "one processor";
  }
  ThreadPool pool(static_cast<int>(allowed.size()));
  std::vector<std::vector<int>> seen(allowed.size());
  pool.Run(
      [&](int thread) { seen[static_cast<size_t>(thread)] = Affinity::OfThisThread().cpus(); });
  EXPECT_EQ(seen[0], allowed);  // the caller's thread is its own
  std::vector<int> used;
  for (size_t thread = 0; thread < allowed.size(); ++thread) {
    const auto place = pool.place(static_cast<int>(thread));
    ASSERT_TRUE(place);
    used.push_back(place->cpu);
    if (thread > 0) {
      EXPECT_EQ(seen[thread], std::vector<int>{place->cpu});
    }
  }
  std::sort(used.begin(), used.end());
  EXPECT_EQ(used, allowed);
}

TEST(Placement, LeavesOneThreadAndCrowdsFree) {
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  for (const int threads : {1, static_cast<int>(allowed.size()) + 1}) {
    ThreadPool pool(threads);
    EXPECT_FALSE(pool.place(0));
    pool.Run([&](int) { EXPECT_EQ(Affinity::OfThisThread().cpus(), allowed); });
  }
  ThreadPool pool(2, Placement::kFree);
  EXPECT_FALSE(pool.place(1));
  pool.Run([&](int) { EXPECT_EQ(Affinity::OfThisThread().cpus(), allowed); });
}

TEST(Placement, IsFreeWhereTheEnvironmentSaysSo) {
  ::setenv("CACHALOT_PIN_THREADS", "0", 1);
  const ThreadPool pool(2);
  ::unsetenv("CACHALOT_PIN_THREADS");
  EXPECT_FALSE(pool.place(0));
}

TEST(CallerPin, HoldsTheCallerAndGivesItBack) {
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  ThreadPool pool(2);
  if (!pool.place(0)) {
    GTEST_SKIP() << "one processor";
  }
  {
    const CallerPin pin(pool);
    EXPECT_EQ(Affinity::OfThisThread().cpus(), std::vector<int>{pool.place(0)->cpu});
    {
      const CallerPin again(pool);  // pinned already: that one gives back
    }
    EXPECT_EQ(Affinity::OfThisThread().count(), 1);
  }
  EXPECT_EQ(Affinity::OfThisThread().cpus(), allowed);
}

TEST(CallerPin, LeavesACallerWhereItsOwnerHoldsIt) {
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  ThreadPool pool(2);
  if (!pool.place(0)) {
    GTEST_SKIP() << "one processor";
  }
  std::thread held([&] {
    const Affinity elsewhere({pool.place(1)->cpu});
    ASSERT_TRUE(elsewhere.Apply(0));
    const CallerPin pin(pool);
    EXPECT_EQ(Affinity::OfThisThread().cpus(), elsewhere.cpus());
  });
  held.join();
  EXPECT_EQ(Affinity::OfThisThread().cpus(), allowed);
}

TEST(CallerPin, MayEndOnAnotherThread) {
  ThreadPool pool(2);
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  auto pin = std::make_unique<CallerPin>(pool);
  std::thread([&] { pin.reset(); }).join();
  EXPECT_EQ(Affinity::OfThisThread().cpus(), allowed);
}

TEST(AvailableCores, AreAsManyAsTheThreadMayUse) {
  const int cores = AvailableCores();
  EXPECT_GE(cores, 1);
  EXPECT_LE(cores, Affinity::OfThisThread().count());
  const int first = Affinity::OfThisThread().cpus().front();
  std::thread([&] {
    ASSERT_TRUE(Affinity({first}).Apply(0));
    EXPECT_EQ(AvailableCores(), 1);
  }).join();
}

}  // namespace
}  // namespace cachalot
