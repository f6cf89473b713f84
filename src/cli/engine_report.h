// What `cachalot bench serving` says of the engine behind the answers: how its cache and its steps
// did.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cli/serving_report.h"
#include "engine/engine.h"

namespace cachalot {

struct EngineReport {
  int64_t cache_bytes = 0;  // of the pools on the device
  int64_t peak_running = 0;
  int64_t retractions = 0;
  int64_t prompt_tokens = 0;  // of all requests that were admitted
  int64_t cached_tokens = 0;  // of these
  GraphStats graph;
  StepTimes times;
  // Means in milliseconds, of requests that found half their prompt or more in the cache, and of
  // those that found nothing; absent where there are none.
  std::optional<double> hit_ttft;
  std::optional<double> miss_ttft;

  double cached_share() const;
  // Of the time of all steps; 0 without any.
  double ShareOfSteps(int64_t nanoseconds) const;
};

// Of what the engine did between two of its stats, with the requests' records. The peak is that of
// its whole life.
EngineReport MakeEngineReport(std::span<const RequestRecord> records, const EngineStats& before,
                              const EngineStats& after, int64_t cache_bytes);

// A block of lines, as FormatServingReport's.
std::string FormatEngineReport(const EngineReport& report);
OrderedJson ToJson(const EngineReport& report);

}  // namespace cachalot
