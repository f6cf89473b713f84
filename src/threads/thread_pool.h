// ThreadPool: a fixed team that shares out an index range in static, contiguous parts. The caller
// is its first thread. Each worker keeps to a processor of its own where there are enough.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "threads/affinity.h"
#include "threads/function_ref.h"
#include "threads/topology.h"

namespace cachalot {

// Part `index` of `parts` nearly equal parts of [0, total).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  static Range Part(int64_t total, int64_t index, int64_t parts) {
    return {total * index / parts, total * (index + 1) / parts};
  }
};

// Two teams of two programs pinned to the same processors share those and leave others idle: the
// environment's CACHALOT_PIN_THREADS=0 makes every team kFree, and taskset gives each its own.
enum class Placement : uint8_t {
  kFree,    // the system's scheduler moves threads as it likes
  kPinned,  // one hardware thread each, in CpuTopology::TeamOrder of those that the constructing
            // thread may use; as kFree for one thread, and for more threads than there are
};

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads, Placement placement = Placement::kPinned);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int num_threads() const { return num_threads_; }
  // Where a thread keeps to, for memory that it alone will read; nothing in a team that is not
  // pinned. Thread 0, the caller, is there only under a CallerPin.
  std::optional<HardwareThread> place(int thread) const;

  // Calls body(thread) once for each thread in [0, num_threads) and returns when all are done. One
  // call at a time: to call it from a body, or from two threads at once, is a failed check. An
  // exception out of a body ends the program.
  void Run(FunctionRef<void(int thread)> body) noexcept;
  // Splits [0, total) into one contiguous part per thread; empty parts are not called. As Run.
  void ParallelFor(int64_t total, FunctionRef<void(int64_t begin, int64_t end)> body) noexcept;

 private:
  // Workers form a tree, the caller at its root: each wakes its children before its own part and
  // waits for them after it. Words that two threads look at have their own cache lines.
  struct alignas(128) Seat {
    std::atomic<uint32_t> called = 0;    // the last round that the parent called
    std::atomic<uint32_t> finished = 0;  // the last round that the whole subtree has done
  };

  void Work(int thread);
  void CallChildren(int thread, uint32_t round);
  void AwaitChildren(int thread, uint32_t round);
  void AwaitChange(const std::atomic<uint32_t>& word, uint32_t old) const;

  const int num_threads_;
  bool spins_ = false;
  std::vector<HardwareThread> places_;  // of each thread, or empty
  std::unique_ptr<Seat[]> seats_;
  std::vector<std::thread> workers_;
  std::atomic<bool> running_ = false;
  uint32_t round_ = 0;
  const FunctionRef<void(int)>* body_ = nullptr;  // null: the round in which workers end
};

// Keeps the calling thread on the first processor of a pinned team, for as long as it issues one
// Run after the other, and then gives it back what it had: the caller's thread is not the pool's,
// and threads that it starts inherit where it may run. Does nothing to a caller that its owner
// holds elsewhere or has pinned already. May be destroyed by another thread.
class CallerPin {
 public:
  explicit CallerPin(const ThreadPool& pool);
  CallerPin(const CallerPin&) = delete;
  CallerPin& operator=(const CallerPin&) = delete;
  ~CallerPin();

 private:
  pid_t caller_ = 0;  // 0: nothing to give back
  Affinity before_;
};

// The number of threads to use where nothing else is said: one for each core that the calling
// thread may run on.
int AvailableCores();

}  // namespace cachalot
