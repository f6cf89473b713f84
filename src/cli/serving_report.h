// What `cachalot bench serving` says of the requests it sent: the figures that servers are compared
// by, in the layout that people know.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/json.h"

namespace cachalot {

// Times are seconds of one clock.
struct RequestRecord {
  double arrival = 0;
  double end = 0;
  std::vector<double> token_times;  // of every token of the answer, when it was known
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt
  bool ok = false;

  int64_t output_tokens() const { return static_cast<int64_t>(token_times.size()); }
};

// Milliseconds that a request may take and count as served well.
struct GoodputLimits {
  std::optional<double> ttft;
  std::optional<double> tpot;
  std::optional<double> e2el;
};

// "ttft:500", "tpot:50", "e2el:10000", each at most once.
Result<GoodputLimits> ParseGoodputLimits(std::span<const std::string> limits);

struct LatencySummary {
  double mean;
  double median;
  double p99;
};

// Failed requests count as failed and until their end, and nowhere else. A latency that nothing was
// measured of is absent.
struct ServingReport {
  int64_t completed = 0;
  int64_t failed = 0;
  double duration = 0;  // seconds, from the first arrival to the last end
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
  std::optional<int64_t> good;  // requests within the limits, where there are any
  // Milliseconds.
  std::optional<LatencySummary> ttft;  // arrival to first token
  std::optional<LatencySummary> tpot;  // first token to last, over the tokens after the first
  std::optional<LatencySummary> itl;   // between neighbouring tokens, all requests' together
  std::optional<LatencySummary> e2el;  // arrival to end

  double PerSecond(int64_t count) const {
    return duration > 0 ? static_cast<double>(count) / duration : 0;
  }
  double cached_share() const {
    return input_tokens > 0 ? static_cast<double>(cached_tokens) / static_cast<double>(input_tokens)
                            : 0;
  }
};

ServingReport MakeServingReport(std::span<const RequestRecord> records,
                                const GoodputLimits& limits);

// A block of lines.
std::string FormatServingReport(const ServingReport& report);
OrderedJson ToJson(const ServingReport& report);

// Of values in rising order, at least one; `fraction` 0 to 1. Between two neighbours as far as it
// falls between them, as numpy's default does.
double Percentile(std::span<const double> sorted, double fraction);

}  // namespace cachalot
