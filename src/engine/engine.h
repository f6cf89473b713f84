// Engine: a model that answers many requests at once, on a thread of its own.
// docs/contracts/engine.md is what it promises.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "cache/state_layout.h"
#include "checkpoint/weights.h"
#include "device/device.h"
#include "engine/request.h"
#include "engine/step_loop.h"

namespace cachalot {

struct EngineOptions {
  int64_t max_running = 16;
  int64_t max_context = 0;             // tokens of a request, its answer included; 0: the model's
  int64_t chunked_prefill_size = 512;  // tokens of prompts in a step; rounded up to whole pages
  int64_t cache_bytes = 0;             // of the pools on the device
  int64_t cache_tokens = 0;      // instead of cache_bytes: that all requests and prefixes have
  int64_t host_cache_bytes = 0;  // of the host tier; 0: none
  bool prefix_cache = true;
  StateKind state = StateKind::kRing;  // paged state takes no prefix cache
  std::string disk_cache_folder;       // empty: no disk tier
  int64_t disk_cache_bytes = 0;        // goes through the host tier, which must be there
  bool graph = true;
  std::vector<int64_t> capture_sizes;  // empty: DefaultCaptureSizes
  int64_t max_waiting = 1 << 20;
  bool plan_ahead = false;
  std::function<void(Scheduler&)> before_plan;            // for drills
  std::function<void(const std::string& line)> on_trace;  // the scheduler's trace, line by line
};

struct CachePoolUse {
  const char* name = "";
  int64_t pages = 0;
  int64_t used = 0;  // by requests, by the prefix index, or by both
};

struct EngineStats {
  SchedulerStats scheduler;
  std::vector<CachePoolUse> pools;  // of the device; those that the model has
  PrefixStats prefix;
  GraphStats graph;
  StepTimes times;
  int64_t host_bytes_moved = 0;
  DiskTierStats disk;
};

class Engine {
 public:
  // The device outlives the engine. kResourceExhausted, with the least that would do, where
  // cache_bytes are too few.
  static Result<std::unique_ptr<Engine>> New(Device& device, ModelConfig config, Weights weights,
                                             const EngineOptions& options);
  // Cancels what is left; its listeners hear the end.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // From any thread. kInvalidArgument: it can never run; kResourceExhausted: the queue is full,
  // or the engine is ending. Its listener then hears nothing.
  Result<RequestId> Submit(EngineRequest request);
  void Cancel(RequestId id);
  // Waits until every request has ended, those submitted meanwhile included.
  void Drain();
  EngineStats stats() const;
  // How long the step that is under way has been, 0 between steps and where nothing runs.
  double step_seconds() const;
  const ModelConfig& config() const { return config_; }
  const CachePlan& plan() const { return plan_; }
  int64_t max_context() const { return scheduler_options_.max_context; }
  // Which pools lack pages, none if all is well. Of an idle engine; empties the prefix index.
  std::string LeakReport();

 private:
  struct Arrival {
    RequestId id;
    EngineRequest request;
    int64_t at = 0;  // Ticks
  };

  Engine(const CachePlan& plan, const ModelConfig& config, const SchedulerOptions& scheduler,
         int64_t max_waiting, std::unique_ptr<DiskTier> disk);
  void Run();
  // Hands what has arrived over to the loop; false where the engine is to stop.
  bool TakeArrivals();
  void BeginTurn();
  void PublishStats(StepLoop::Turn turn);

  const CachePlan plan_;
  const ModelConfig config_;
  const SchedulerOptions scheduler_options_;
  const int64_t max_waiting_;
  std::unique_ptr<StepLoop> loop_;  // of the thread

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable idle_;
  std::vector<Arrival> arrivals_;
  std::vector<RequestId> cancelled_;
  std::vector<std::pair<int64_t, bool>> fetched_;
  std::vector<std::function<void()>> calls_;  // to be made between two steps
  EngineStats stats_;                         // as of the last step
  int64_t next_id_ = 1;
  int64_t turn_began_ = 0;  // Ticks; 0 between turns
  bool busy_ = false;       // the loop has requests
  bool waits_ = false;      // all of them for the disk
  bool stopping_ = false;
  std::unique_ptr<DiskTier> disk_;  // goes before the above: it reads into the loop's memory
  std::thread thread_;
};

// The pools that New takes of the device, as it does.
Result<CachePlan> PlanCache(const Device& device, const ModelConfig& config,
                            const EngineOptions& options);

// How host_cache_bytes are shared: pages by PagePart, for parts of these sizes.
std::array<int64_t, 2> HostSlotsFor(int64_t bytes, const std::array<int64_t, 2>& part_bytes);

}  // namespace cachalot
