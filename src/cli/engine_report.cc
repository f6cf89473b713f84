#include "cli/engine_report.h"

#include <fmt/format.h>

namespace cachalot {
namespace {

constexpr int kWidth = 50;

StepTimes Between(const StepTimes& before, const StepTimes& after) {
  return {.steps = after.steps - before.steps,
          .plan = after.plan - before.plan,
          .commit = after.commit - before.commit,
          .execute = after.execute - before.execute,
          .sample = after.sample - before.sample,
          .publish = after.publish - before.publish};
}

GraphStats Between(const GraphStats& before, const GraphStats& after) {
  return {.captures = after.captures - before.captures,
          .replays = after.replays - before.replays,
          .eager_steps = after.eager_steps - before.eager_steps,
          .padded_rows = after.padded_rows - before.padded_rows};
}

// Milliseconds to the first token of those that `takes` takes.
template <typename Takes>
std::optional<double> MeanTtft(std::span<const RequestRecord> records, const Takes& takes) {
  double sum = 0;
  int64_t count = 0;
  for (const RequestRecord& record : records) {
    if (record.ok && takes(record)) {
      sum += record.token_times.front() - record.arrival;
      ++count;
    }
  }
  return count > 0 ? std::optional(1000 * sum / static_cast<double>(count)) : std::nullopt;
}

}  // namespace

double EngineReport::cached_share() const {
  return prompt_tokens > 0 ? static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens)
                           : 0;
}

double EngineReport::ShareOfSteps(int64_t nanoseconds) const {
  const int64_t all = times.plan + times.commit + times.execute + times.sample + times.publish;
  return all > 0 ? static_cast<double>(nanoseconds) / static_cast<double>(all) : 0;
}

EngineReport MakeEngineReport(std::span<const RequestRecord> records, const EngineStats& before,
                              const EngineStats& after, int64_t cache_bytes) {
  EngineReport report;
  report.cache_bytes = cache_bytes;
  report.peak_running = after.scheduler.peak_running;
  report.retractions = after.scheduler.retractions - before.scheduler.retractions;
  report.prompt_tokens = after.scheduler.prompt_tokens - before.scheduler.prompt_tokens;
  report.cached_tokens = after.scheduler.cached_tokens - before.scheduler.cached_tokens;
  report.graph = Between(before.graph, after.graph);
  report.times = Between(before.times, after.times);
  report.hit_ttft = MeanTtft(records, [](const RequestRecord& record) {
    return 2 * record.cached_tokens >= record.prompt_tokens;
  });
  report.miss_ttft =
      MeanTtft(records, [](const RequestRecord& record) { return record.cached_tokens == 0; });
  return report;
}

std::string FormatEngineReport(const EngineReport& report) {
  std::string text = fmt::format("{:-^{}}\n", "Engine", kWidth);
  const auto count = [&](const char* label, int64_t value) {
    text += fmt::format("{:<40}{:>10}\n", label, value);
  };
  const auto number = [&](const char* label, double value) {
    text += fmt::format("{:<40}{:>10.2f}\n", label, value);
  };
  number("Cache on the device (MiB):", static_cast<double>(report.cache_bytes) / (1 << 20));
  count("Peak running requests:", report.peak_running);
  count("Retractions:", report.retractions);
  number("Prompt tokens from the cache (%):", 100 * report.cached_share());
  if (report.hit_ttft) {
    number("Mean TTFT, half cached or more (ms):", *report.hit_ttft);
  }
  if (report.miss_ttft) {
    number("Mean TTFT, nothing cached (ms):", *report.miss_ttft);
  }
  if (report.hit_ttft && report.miss_ttft) {
    number("Former over latter (%):", 100 * *report.hit_ttft / *report.miss_ttft);
  }
  count("Steps:", report.times.steps);
  count("Steps replayed as graphs:", report.graph.replays);
  const auto share = [&](const char* label, int64_t nanoseconds) {
    number(label, 100 * report.ShareOfSteps(nanoseconds));
  };
  share("Step time, scheduler and cache (%):", report.times.plan + report.times.commit);
  share("Step time, model (%):", report.times.execute);
  share("Step time, sampling (%):", report.times.sample);
  share("Step time, listeners (%):", report.times.publish);
  return text + fmt::format("{:=^{}}\n", "", kWidth);
}

OrderedJson ToJson(const EngineReport& report) {
  const StepTimes& times = report.times;
  OrderedJson json = {
      {"cache_bytes", report.cache_bytes},
      {"peak_running", report.peak_running},
      {"retractions", report.retractions},
      {"prompt_tokens", report.prompt_tokens},
      {"cached_tokens", report.cached_tokens},
      {"cached_token_share", report.cached_share()},
      {"graph",
       {{"captures", report.graph.captures},
        {"replays", report.graph.replays},
        {"eager_steps", report.graph.eager_steps},
        {"padded_rows", report.graph.padded_rows}}},
      {"steps", times.steps},
      {"step_time_ns",
       {{"plan", times.plan},
        {"commit", times.commit},
        {"execute", times.execute},
        {"sample", times.sample},
        {"publish", times.publish}}},
      {"scheduler_and_cache_share", report.ShareOfSteps(times.plan + times.commit)}};
  if (report.hit_ttft) {
    json["mean_hit_ttft_ms"] = *report.hit_ttft;
  }
  if (report.miss_ttft) {
    json["mean_miss_ttft_ms"] = *report.miss_ttft;
  }
  if (report.hit_ttft && report.miss_ttft) {
    json["hit_over_miss_ttft"] = *report.hit_ttft / *report.miss_ttft;
  }
  return json;
}

}  // namespace cachalot
