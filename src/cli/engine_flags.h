// An engine as flags describe it: what the commands that answer many requests share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/loaded_model.h"
#include "engine/engine.h"

namespace cachalot {

struct EngineFlags {
  int64_t max_running = 64;
  int64_t max_waiting = 1 << 29;       // the most that an engine takes
  int64_t context = 0;                 // 0: kDefaultContext, or the model's where that is less
  int64_t chunked_prefill_size = 512;  // tokens
  int64_t cache_bytes = 0;             // 0: DefaultCacheBytes
  bool prefix_cache = true;
  StateKind state = StateKind::kRing;  // paged: without a prefix cache
  int64_t host_cache_bytes = 0;        // 0: none, or kHostCacheOfDisk with a disk cache
  std::string disk_cache_folder;
  int64_t disk_cache_bytes = 0;  // 0: kDefaultDiskCacheBytes
  bool graph = true;

  static constexpr int64_t kDefaultContext = 32768;
  static constexpr int64_t kHostCacheOfDisk = int64_t{1} << 30;
  static constexpr int64_t kDefaultDiskCacheBytes = int64_t{16} << 30;

  void AddTo(CLI::App& command);       // all but the queue
  void AddQueueTo(CLI::App& command);  // --max-queue
};

// kInvalidArgument, naming the flags, where they contradict each other or the model. cache_bytes
// stay 0 where they are to be found out.
Result<EngineOptions> EngineOptionsOf(const EngineFlags& flags, const ModelConfig& config);

// Of the pools on the device: a quarter of `available`, but no more than max_running requests of
// max_context tokens can use, and no less than the engine runs with. Options but for their
// cache_bytes and cache_tokens; kInvalidArgument where these are out of bounds.
Result<int64_t> DefaultCacheBytes(const Device& device, const ModelConfig& config,
                                  const EngineOptions& options, int64_t available);

// Loads the model and brings its weights in. The device outlives the engine. on_trace takes the
// scheduler's trace; may be empty.
Result<std::unique_ptr<Engine>> OpenEngine(
    Device& device, const ModelFlags& model, const EngineFlags& flags,
    const std::function<void(const std::string& line)>& on_trace = {});

}  // namespace cachalot
