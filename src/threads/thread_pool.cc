#include "threads/thread_pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/thread_name.h"

namespace cachalot {
namespace {

constexpr int kFanOut = 4;

// A step issues hundreds of short rounds: a thread looks for the next one this long before it
// sleeps, as waking it takes a good part of that.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr int kLooksPerClock = 32;

bool PinningAllowed() {
  const char* value = std::getenv("CACHALOT_PIN_THREADS");
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace

ThreadPool::ThreadPool(int num_threads, Placement placement) : num_threads_(num_threads) {
  CACHALOT_CHECK_GE(num_threads, 1);
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  spins_ = num_threads <= static_cast<int>(allowed.size());
  if (placement == Placement::kPinned && num_threads > 1 && PinningAllowed()) {
    places_ = CpuTopology::Machine().TeamOrder(allowed);
    if (places_.size() < static_cast<size_t>(num_threads)) {
      places_.clear();
    } else {
      places_.resize(static_cast<size_t>(num_threads));
    }
  }
  seats_ = std::make_unique<Seat[]>(static_cast<size_t>(num_threads));
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { Work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  body_ = nullptr;
  CallChildren(0, ++round_);
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

std::optional<HardwareThread> ThreadPool::place(int thread) const {
  CACHALOT_CHECK(0 <= thread && thread < num_threads_, "thread {} of {}", thread, num_threads_);
  if (places_.empty()) {
    return std::nullopt;
  }
  return places_[static_cast<size_t>(thread)];
}

void ThreadPool::Run(FunctionRef<void(int)> body) noexcept {
  CACHALOT_CHECK(!running_.exchange(true), "a pool runs one call at a time");
  body_ = &body;
  const uint32_t round = ++round_;
  CallChildren(0, round);
  body(0);
  AwaitChildren(0, round);
  running_ = false;
}

void ThreadPool::ParallelFor(int64_t total, FunctionRef<void(int64_t, int64_t)> body) noexcept {
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
  NameThisThread("pool-" + std::to_string(thread));
  if (!places_.empty()) {
    // Where the system refuses after all, the worker runs all the same.
    Affinity({places_[static_cast<size_t>(thread)].cpu}).Apply(0);
  }
  Seat& seat = seats_[static_cast<size_t>(thread)];
  uint32_t round = 0;
  while (true) {
    AwaitChange(seat.called, round);
    ++round;
    CallChildren(thread, round);
    if (body_ == nullptr) {
      return;
    }
    (*body_)(thread);
    AwaitChildren(thread, round);
    seat.finished = round;
    seat.finished.notify_one();
  }
}

void ThreadPool::CallChildren(int thread, uint32_t round) {
  const int first = thread * kFanOut + 1;
  for (int child = first; child < std::min(first + kFanOut, num_threads_); ++child) {
    Seat& seat = seats_[static_cast<size_t>(child)];
    seat.called = round;
    seat.called.notify_one();
  }
}

void ThreadPool::AwaitChildren(int thread, uint32_t round) {
  const int first = thread * kFanOut + 1;
  for (int child = first; child < std::min(first + kFanOut, num_threads_); ++child) {
    AwaitChange(seats_[static_cast<size_t>(child)].finished, round - 1);
  }
}

void ThreadPool::AwaitChange(const std::atomic<uint32_t>& word, uint32_t old) const {
  if (spins_) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int look = 0; look < kLooksPerClock; ++look) {
        if (word.load() != old) {
          return;
        }
        __builtin_ia32_pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  word.wait(old);
}

CallerPin::CallerPin(const ThreadPool& pool) : before_(Affinity::OfThisThread()) {
  const auto place = pool.place(0);
  if (place && before_.count() > 1 && before_.Has(place->cpu) && Affinity({place->cpu}).Apply(0)) {
    caller_ = ::gettid();
  }
}

CallerPin::~CallerPin() {
  if (caller_ != 0) {
    before_.Apply(caller_);
  }
}

int AvailableCores() {
  const std::vector<int> allowed = Affinity::OfThisThread().cpus();
  const int cores = CpuTopology::Machine().CountCores(allowed);
  return cores > 0 ? cores : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace cachalot
