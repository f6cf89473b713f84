// ThreadPool: a fixed team that shares out an index range in static, contiguous parts. The caller
// is its first thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cachalot {

// Part `index` of `parts` nearly equal parts of [0, total).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  static Range Part(int64_t total, int64_t index, int64_t parts) {
    return {total * index / parts, total * (index + 1) / parts};
  }
};

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int num_threads() const { return num_threads_; }
  // Calls body(thread) once for each thread in [0, num_threads) and returns when all are done. Not
  // reentrant, and not to be called from two threads at once.
  void Run(const std::function<void(int thread)>& body);
  // Splits [0, total) into one contiguous part per thread; empty parts are not called.
  void ParallelFor(int64_t total, const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  void Work(int thread);

  const int num_threads_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(int)>* body_ = nullptr;
  std::atomic<int64_t> round_ = 0;  // counts calls of Run; -1 tells the workers to end
  std::atomic<int> still_working_ = 0;
};

// The number of hardware threads that this process may use.
int AvailableThreads();

}  // namespace cachalot
