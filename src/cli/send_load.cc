#include "cli/send_load.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/log.h"

namespace cachalot {
namespace {

using Clock = std::chrono::steady_clock;
using Progress = std::function<void(int64_t ended, int64_t total)>;

constexpr std::chrono::milliseconds kProgressInterval(80);

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// How many requests have ended, for a thread that waits for them.
class EndedCount {
 public:
  EndedCount(int64_t total, const Progress& progress) : total_(total), progress_(progress) {}

  void Add() {
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }
  // Until so many have ended, or `until`.
  void Wait(int64_t ended, Clock::time_point until) {
    std::unique_lock lock(mutex_);
    while (ended_ < ended && Clock::now() < until) {
      progress_(ended_, total_);
      changed_.wait_until(lock, std::min(until, Clock::now() + kProgressInterval));
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t ended_ = 0;
  const int64_t total_;
  const Progress& progress_;
};

// Fills a record in; what it has written is there for others when `ended` counts it.
class Recorder : public RequestListener {
 public:
  Recorder(RequestRecord& record, int64_t output_tokens, Clock::time_point begin, EndedCount& ended)
      : record_(record), output_tokens_(output_tokens), begin_(begin), ended_(ended) {
    record_.token_times.reserve(static_cast<size_t>(output_tokens));
  }

  bool OnToken(const GeneratedToken& /*token*/) override {
    record_.token_times.push_back(SecondsBetween(begin_, Clock::now()));
    return true;
  }
  void OnEnd(EndReason reason, const RequestUsage& usage) override {
    record_.end = SecondsBetween(begin_, Clock::now());
    record_.cached_tokens = usage.cached_tokens;
    record_.ok = reason == EndReason::kLength && record_.output_tokens() == output_tokens_;
    ended_.Add();
  }

 private:
  RequestRecord& record_;
  const int64_t output_tokens_;
  const Clock::time_point begin_;
  EndedCount& ended_;
};

}  // namespace

std::vector<RequestRecord> SendLoad(Engine& engine, std::vector<LoadRequest> requests,
                                    int64_t max_concurrency, const Progress& progress) {
  const auto total = static_cast<int64_t>(requests.size());
  std::vector<RequestRecord> records(requests.size());
  EndedCount ended(total, progress);
  const Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < total; ++i) {
    LoadRequest& load = requests[static_cast<size_t>(i)];
    RequestRecord& record = records[static_cast<size_t>(i)];
    const auto due = begin + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(load.arrival));
    ended.Wait(total + 1, due);
    record.arrival = load.arrival;
    if (max_concurrency > 0) {
      ended.Wait(i + 1 - max_concurrency, Clock::time_point::max());
      record.arrival = SecondsBetween(begin, Clock::now());
    }
    record.prompt_tokens = static_cast<int64_t>(load.prompt.size());
    EngineRequest request;
    request.prompt = std::move(load.prompt);
    request.sampling.temperature = 0;
    request.max_new_tokens = load.output_tokens;
    request.listener = std::make_unique<Recorder>(record, load.output_tokens, begin, ended);
    if (const auto submitted = engine.Submit(std::move(request)); !submitted) {
      spdlog::warn("request {}: {}", i, submitted.error().message);
      record.end = SecondsBetween(begin, Clock::now());
      ended.Add();
    }
  }
  ended.Wait(total, Clock::time_point::max());
  return records;
}

}  // namespace cachalot
