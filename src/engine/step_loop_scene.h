// A StepLoop over a small checkpoint, stepped by hand, for this room's tests: no thread but the
// device's own, no clock, so that every run is the same.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "engine/cache_plan.h"
#include "engine/faulty_device.h"
#include "engine/listening.h"
#include "engine/step_loop.h"

namespace cachalot {

struct SceneSettings {
  std::string golden = "native";
  int64_t max_running = 4;
  int64_t chunk = 512;
  int64_t cache_tokens = 8192;  // all of them with window rows
  bool prefix_cache = true;
  StateKind state = StateKind::kRing;
  std::array<int64_t, 2> host_slots = {0, 0};
  bool graph = true;
  bool plan_ahead = false;
  int threads = 1;
  std::string disk_folder = {};  // empty: none
  std::function<void(Scheduler&)> before_plan = {};
};

inline constexpr int64_t kSceneContext = 2304;

class StepLoopScene {
 public:
  explicit StepLoopScene(const SceneSettings& settings = {}) {
    device_ = std::make_unique<FaultyDevice>(
        *cpu::NewCpuDevice({.num_threads = settings.threads, .isa = {}}), faults);
    ModelConfig config = *LoadModelConfig(Golden(settings.golden));
    Weights weights = *Weights::Load(Golden(settings.golden), config);
    const CacheShape shape = CacheShapeOf(config);
    const CachePlan plan = *PlanForTokens(shape, RowLayoutsOf(*device_, shape),
                                          {.max_requests = settings.max_running,
                                           .step_tokens = settings.chunk + settings.max_running,
                                           .state = settings.state},
                                          settings.cache_tokens, settings.cache_tokens);
    StepLoopOptions options;
    options.scheduler.geometry = plan.geometry;
    options.scheduler.chunk_tokens = settings.chunk;
    options.scheduler.max_context = kSceneContext;
    options.scheduler.prefix.enabled = settings.prefix_cache;
    options.scheduler.prefix.host_slots = settings.host_slots;
    options.plan_ahead = settings.plan_ahead;
    options.before_plan = settings.before_plan;
    auto executor = Executor::New(*device_, std::move(config), std::move(weights), plan,
                                  {.max_context = kSceneContext,
                                   .max_requests = settings.max_running,
                                   .max_step_tokens = settings.chunk + settings.max_running,
                                   .graph = settings.graph});
    EXPECT_TRUE(executor);
    if (!settings.disk_folder.empty()) {
      OpenDisk(settings, executor->pools(), options);
    }
    loop_ = std::make_unique<StepLoop>(std::make_unique<Executor>(*std::move(executor)), options);
  }

  StepLoop& loop() { return *loop_; }
  RequestId last_id() const { return RequestId(last_id_); }

  // Gives the request a listener where it has none.
  std::shared_ptr<const Heard> Submit(EngineRequest request, Recorder::OnTokenHook on_token = {}) {
    auto heard = Listen(request, std::move(on_token));
    loop_->Submit(RequestId(++last_id_), std::move(request), now);
    return heard;
  }
  StepLoop::Turn Step() {
    std::vector<std::pair<int64_t, bool>> fetched;
    {
      const std::lock_guard lock(mutex_);
      fetched = std::exchange(fetched_, {});
    }
    for (const auto& [fetch, ok] : fetched) {
      loop_->Fetched(fetch, ok);
    }
    return loop_->Step(now);
  }
  void Drain() {
    int steps = 0;
    for (auto turn = Step(); turn != StepLoop::Turn::kIdle; turn = Step()) {
      ASSERT_LT(++steps, 20000) << "somebody never ends";
      if (turn == StepLoop::Turn::kWaits) {
        disk_->Flush();
      }
    }
    if (disk_ != nullptr) {
      disk_->Flush();
      Step();  // takes notice of what has been read for nobody
    }
    loop_->scheduler().index().CheckConsistency();
  }
  std::shared_ptr<const Heard> Answer(EngineRequest request) {
    auto heard = Submit(std::move(request));
    Drain();
    return heard;
  }
  PrefixStats prefix_stats() { return loop_->scheduler().index().stats(); }
  DiskTier& disk() { return *disk_; }
  std::string LeakReport() { return loop_->scheduler().LeakReport(); }

  // The bytes of a part of a page that the request in `slot` has.
  std::string PageBytes(RequestSlot slot, PagePart part, int64_t page) const {
    const CacheAllocator& cache = loop_->scheduler().cache();
    const PageSet& pages = cache.pages(slot);
    const int64_t entries = cache.geometry().c128_page_entries;
    const PageId full = pages.full[static_cast<size_t>(page)];
    const SlotId window = cache.SwaSlot(SlotId(static_cast<int32_t>(full.value * kPageTokens)));
    EXPECT_GT(window.value, 0) << "page " << page << " has lost its window";
    const PagePlace place = {.full = full,
                             .swa = PageId(static_cast<int32_t>(window.value / kPageTokens)),
                             .c128 = pages.c128[static_cast<size_t>(page / entries)],
                             .c128_row = page % entries};
    std::string bytes;
    for (const Tensor& rows : loop_->executor().pools().PartRows(part, place)) {
      bytes.append(static_cast<const char*>(rows.data), static_cast<size_t>(rows.bytes()));
    }
    return bytes;
  }

  Faults faults;
  Ticks now = 0;

 private:
  void OpenDisk(const SceneSettings& settings, const CachePools& pools, StepLoopOptions& options) {
    DiskTierOptions disk;
    disk.folder = settings.disk_folder;
    disk.max_bytes = 64 << 20;
    disk.part_bytes = {pools.part_bytes(PagePart::kHistory), pools.part_bytes(PagePart::kWindow)};
    disk.root = RootKey(settings.golden);
    options.scheduler.prefix.disk_slots = *PlanSlabs(disk);
    options.scheduler.prefix.root = disk.root;
    disk_ = *DiskTier::Open(disk);
    options.disk = disk_.get();
    options.on_fetched = [this](int64_t fetch, bool ok) {
      const std::lock_guard lock(mutex_);
      fetched_.emplace_back(fetch, ok);
    };
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<StepLoop> loop_;
  int64_t last_id_ = 0;
  std::mutex mutex_;
  std::vector<std::pair<int64_t, bool>> fetched_;  // by the disk tier's thread
  std::unique_ptr<DiskTier> disk_;                 // reads into the loop's memory: goes before it
};

// The answers that requests have when nothing else runs and nothing is shared.
inline std::shared_ptr<const Heard> ColdAnswer(StepLoopScene& cold, EngineRequest request) {
  auto heard = cold.Answer(std::move(request));
  EXPECT_TRUE(heard->ok());
  EXPECT_EQ(heard->usage.cached_tokens, 0);
  return heard;
}

inline SceneSettings Cold(const std::string& golden = "native") {
  return {.golden = golden,
          .max_running = 1,
          .cache_tokens = kSceneContext,
          .prefix_cache = false,
          .graph = false};
}

}  // namespace cachalot
