// Tokens per second of prefill and decode, over a grid of problems, beside the limit that binds
// each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/limits/limits.h"
#include "base/result.h"
#include "cli/loaded_model.h"
#include "cli/profiled_device.h"

namespace cachalot {

// Tokens of a prefill step; a decode step has one for each request, so there are no more requests than that.
inline constexpr int64_t kThroughputStepTokens = 512;

struct ThroughputOptions {
  std::vector<int64_t> prompts;    // tokens to prefill, a test each
  std::vector<int64_t> generates;  // tokens to decode, a test each
  std::vector<int64_t> depths;   // tokens that each request has before, rows of noise in the caches
  std::vector<int64_t> batches;  // requests at once
  std::vector<int64_t> threads;
  int64_t repetitions = 5;
  bool profile = false;  // time every operator
};

struct ThroughputResult {
  std::string test;  // "pp512", "tg128"
  int64_t threads = 0;
  int64_t depth = 0;
  int64_t batch = 0;
  std::vector<double> tokens_per_second;  // one for each repetition
  std::string limit;                      // "memory" or "compute"
  double limit_tokens_per_second = 0;
  cpu::MachineLimits machine;
  double seconds = 0;                 // of all repetitions
  std::vector<OperatorTime> profile;  // of all repetitions; empty where not asked for

  double median() const;
  double limit_fraction() const { return median() / limit_tokens_per_second; }
};

// Runs every combination, threads outermost, with random tokens; the limits are measured in the
// same run. A repetition at a depth goes on where the last one ended.
Status RunThroughput(const ModelFlags& flags, const ThroughputOptions& options,
                     const std::function<void(const ThroughputResult&)>& report);

}  // namespace cachalot
