#include "threads/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
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

TEST(ThreadPool, StartsAndStopsManyTimes) {
  std::atomic<int> sum = 0;
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(3);
    pool.Run([&](int thread) { sum += thread; });
  }
  EXPECT_EQ(sum, 200 * 3);
}

TEST(AvailableThreads, IsAtLeastOne) { EXPECT_GE(AvailableThreads(), 1); }

}  // namespace
}  // namespace cachalot
