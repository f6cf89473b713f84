#include "cli/serving_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace cachalot {
namespace {

constexpr int kWidth = 50;

double Milliseconds(double begin, double end) { return 1000 * (end - begin); }

std::optional<LatencySummary> Summarise(std::vector<double> values) {
  if (values.empty()) {
    return std::nullopt;
  }
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  return LatencySummary{sum / static_cast<double>(values.size()), Percentile(values, 0.5),
                        Percentile(values, 0.99)};
}

// The latencies of requests, milliseconds.
struct Latencies {
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  std::vector<double> e2el;
};

bool Within(const std::optional<double>& limit, double value) { return !limit || value <= *limit; }

// Adds a request's; tells whether they are within the limits.
bool Add(const RequestRecord& record, const GoodputLimits& limits, Latencies* all) {
  const std::vector<double>& times = record.token_times;
  bool good = true;
  if (!times.empty()) {
    all->ttft.push_back(Milliseconds(record.arrival, times.front()));
    good = good && Within(limits.ttft, all->ttft.back());
  }
  if (times.size() > 1) {
    all->tpot.push_back(Milliseconds(times.front(), times.back()) /
                        static_cast<double>(times.size() - 1));
    good = good && Within(limits.tpot, all->tpot.back());
  }
  for (size_t i = 1; i < times.size(); ++i) {
    all->itl.push_back(Milliseconds(times[i - 1], times[i]));
  }
  all->e2el.push_back(Milliseconds(record.arrival, record.end));
  return good && Within(limits.e2el, all->e2el.back());
}

// The four latencies: short name, title of its part of the block.
struct NamedLatency {
  const char* key;
  const char* label;
  const char* title;
  std::optional<LatencySummary> ServingReport::*summary;
};
constexpr NamedLatency kLatencies[] = {
    {"ttft", "TTFT", "Time to First Token", &ServingReport::ttft},
    {"tpot", "TPOT", "Time per Output Token (excl. 1st token)", &ServingReport::tpot},
    {"itl", "ITL", "Inter-token Latency", &ServingReport::itl},
    {"e2el", "E2EL", "End-to-end Latency", &ServingReport::e2el}};

}  // namespace

Result<GoodputLimits> ParseGoodputLimits(std::span<const std::string> limits) {
  GoodputLimits parsed;
  const std::pair<std::string_view, std::optional<double>*> places[] = {
      {"ttft:", &parsed.ttft}, {"tpot:", &parsed.tpot}, {"e2el:", &parsed.e2el}};
  for (const std::string& text : limits) {
    const auto place = std::find_if(std::begin(places), std::end(places),
                                    [&](const auto& p) { return text.starts_with(p.first); });
    double limit = 0;
    bool good = place != std::end(places) && !*place->second;
    if (good) {
      const char* end = text.data() + text.size();
      const auto [rest, fault] = std::from_chars(text.data() + place->first.size(), end, limit);
      good = fault == std::errc() && rest == end && limit >= 0;
    }
    if (!good) {
      return MakeError(StatusCode::kInvalidArgument,
                       "--goodput has \"{}\", expected ttft:MS, tpot:MS or e2el:MS, each once",
                       text);
    }
    *place->second = limit;
  }
  return parsed;
}

double Percentile(std::span<const double> sorted, double fraction) {
  CACHALOT_CHECK(!sorted.empty());
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

ServingReport MakeServingReport(std::span<const RequestRecord> records,
                                const GoodputLimits& limits) {
  ServingReport report;
  Latencies all;
  int64_t good = 0;
  double begin = HUGE_VAL;
  double end = -HUGE_VAL;
  for (const RequestRecord& record : records) {
    begin = std::min(begin, record.arrival);
    end = std::max(end, record.end);
    if (!record.ok) {
      ++report.failed;
      continue;
    }
    ++report.completed;
    report.input_tokens += record.prompt_tokens;
    report.output_tokens += record.output_tokens();
    report.cached_tokens += record.cached_tokens;
    good += Add(record, limits, &all) ? 1 : 0;
  }
  report.duration = records.empty() ? 0 : end - begin;
  if (limits.ttft || limits.tpot || limits.e2el) {
    report.good = good;
  }
  report.ttft = Summarise(std::move(all.ttft));
  report.tpot = Summarise(std::move(all.tpot));
  report.itl = Summarise(std::move(all.itl));
  report.e2el = Summarise(std::move(all.e2el));
  return report;
}

std::string FormatServingReport(const ServingReport& report) {
  std::string text = fmt::format("{:=^{}}\n", " Serving Benchmark Result ", kWidth);
  const auto count = [&](const char* label, int64_t value) {
    text += fmt::format("{:<40}{:>10}\n", label, value);
  };
  const auto number = [&](const std::string& label, double value) {
    text += fmt::format("{:<40}{:>10.2f}\n", label, value);
  };
  count("Successful requests:", report.completed);
  count("Failed requests:", report.failed);
  number("Benchmark duration (s):", report.duration);
  count("Total input tokens:", report.input_tokens);
  count("Total generated tokens:", report.output_tokens);
  number("Cached input tokens (%):", 100 * report.cached_share());
  number("Request throughput (req/s):", report.PerSecond(report.completed));
  if (report.good) {
    number("Request goodput (req/s):", report.PerSecond(*report.good));
  }
  number("Output token throughput (tok/s):", report.PerSecond(report.output_tokens));
  number("Total token throughput (tok/s):",
         report.PerSecond(report.input_tokens + report.output_tokens));
  for (const NamedLatency& latency : kLatencies) {
    const std::optional<LatencySummary>& summary = report.*latency.summary;
    if (!summary) {
      continue;
    }
    text += fmt::format("{:-^{}}\n", latency.title, kWidth);
    number(fmt::format("Mean {} (ms):", latency.label), summary->mean);
    number(fmt::format("Median {} (ms):", latency.label), summary->median);
    number(fmt::format("P99 {} (ms):", latency.label), summary->p99);
  }
  return text + fmt::format("{:=^{}}\n", "", kWidth);
}

OrderedJson ToJson(const ServingReport& report) {
  OrderedJson json = {
      {"completed", report.completed},
      {"failed", report.failed},
      {"duration", report.duration},
      {"total_input_tokens", report.input_tokens},
      {"total_output_tokens", report.output_tokens},
      {"cached_tokens", report.cached_tokens},
      {"cached_token_share", report.cached_share()},
      {"request_throughput", report.PerSecond(report.completed)},
      {"output_throughput", report.PerSecond(report.output_tokens)},
      {"total_token_throughput", report.PerSecond(report.input_tokens + report.output_tokens)}};
  if (report.good) {
    json["request_goodput"] = report.PerSecond(*report.good);
  }
  for (const NamedLatency& latency : kLatencies) {
    if (const std::optional<LatencySummary>& summary = report.*latency.summary; summary) {
      json[fmt::format("mean_{}_ms", latency.key)] = summary->mean;
      json[fmt::format("median_{}_ms", latency.key)] = summary->median;
      json[fmt::format("p99_{}_ms", latency.key)] = summary->p99;
    }
  }
  return json;
}

}  // namespace cachalot
