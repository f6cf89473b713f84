#include "threads/thread_pool.h"

#include <sched.h>

#include <algorithm>

#include "base/check.h"

namespace cachalot {
namespace {

// A step issues hundreds of short rounds: a worker looks for the next one this often before it
// sleeps.
constexpr int kSpins = 4000;

template <typename Condition>
bool SpinUntil(const Condition& condition) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (condition()) {
      return true;
    }
    __builtin_ia32_pause();
  }
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  CACHALOT_CHECK_GE(num_threads, 1);
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { Work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    round_ = -1;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void ThreadPool::Run(const std::function<void(int)>& body) {
  if (workers_.empty()) {
    body(0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    still_working_ = num_threads_ - 1;
    ++round_;
  }
  wake_.notify_all();
  body(0);
  const auto finished = [this] { return still_working_.load() == 0; };
  if (!SpinUntil(finished)) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, finished);
  }
}

void ThreadPool::ParallelFor(int64_t total, const std::function<void(int64_t, int64_t)>& body) {
  if (total <= 1 || num_threads_ == 1) {
    if (total > 0) {
      body(0, total);
    }
    return;
  }
  Run([&](int thread) {
    const Range part = Range::Part(total, thread, num_threads_);
    if (part.begin < part.end) {
      body(part.begin, part.end);
    }
  });
}

void ThreadPool::Work(int thread) {
  int64_t seen = 0;
  while (true) {
    const auto called = [&] { return round_.load() != seen; };
    if (!SpinUntil(called)) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, called);
    }
    seen = round_.load();
    if (seen < 0) {
      return;
    }
    (*body_)(thread);
    if (still_working_.fetch_sub(1) == 1) {
      const std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

int AvailableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace cachalot
