// Random checkpoints in the published format: to test with and to measure on without real weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "checkpoint/config.h"

namespace cachalot {

// Called now and then with the bytes of weights written so far and in all.
using SynthProgress = std::function<void(int64_t done, int64_t total)>;

// Writes config.json and the tensors of `config` to `folder`, which must be empty or absent: one
// model.safetensors, or shards of at most max_shard_bytes of weights with an index. Weights have a
// standard deviation of gain / sqrt(fan-in), the gain small enough that activations stay calm
// through any number of layers. The same config and seed give the same bytes. Holds a few megabytes
// at a time. On an error what was written is removed.
Status WriteSynthCheckpoint(const ModelConfig& config, uint64_t seed, const std::string& folder,
                            const SynthProgress& progress, int64_t max_shard_bytes = 4'000'000'000);

}  // namespace cachalot
