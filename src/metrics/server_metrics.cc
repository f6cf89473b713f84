#include "metrics/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>

namespace cachalot {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

// The bounds that vLLM has, so that both can share a picture.
const Buckets kFirstTokenBuckets = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                    0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                    20,    40,    80,   160,  640,  2560};
const Buckets kTokenBuckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                               0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kRequestBuckets = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const Buckets kLengthBuckets = {1,     2,      5,      10,     20,     50,    100,
                                200,   500,    1000,   2000,   5000,   10000, 20000,
                                50000, 100000, 200000, 500000, 1000000};

constexpr std::array<const char*, 5> kReasons = {"stop", "length", "abort", "timeout", "error"};

// A counter of a total that somebody else keeps. One thread at a time.
void RaiseTo(Counter& counter, double total) {
  counter.Increment(std::max(0.0, total - counter.Value()));
}

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

struct ServerMetrics::State {
  prometheus::Registry registry;

#define CACHALOT_METRIC(kind, name, help) \
  prometheus::kind& name =                \
      prometheus::Build##kind().Name("cachalot:" #name).Help(help).Register(registry).Add({});
#define CACHALOT_FAMILY(kind, name, labels, help) \
  prometheus::Family<prometheus::kind>& name =    \
      prometheus::Build##kind().Name("cachalot:" #name).Help(help).Register(registry);
#define CACHALOT_HISTOGRAM(name, buckets, help)  \
  Histogram& name = prometheus::BuildHistogram() \
                        .Name("cachalot:" #name) \
                        .Help(help)              \
                        .Register(registry)      \
                        .Add({}, buckets);
#include "metrics/metrics.def"
#undef CACHALOT_METRIC
#undef CACHALOT_FAMILY
#undef CACHALOT_HISTOGRAM

  std::array<Counter*, kReasons.size()> ends = {};

  // Of the totals: two threads must not raise a counter by the same difference.
  std::mutex totals_mutex;
  double mark_seconds = 0;  // since when gen_throughput counts
  double mark_tokens = 0;
};

ServerMetrics::ServerMetrics(const BuildInfo& build) : state_(std::make_unique<State>()) {
  for (size_t i = 0; i < kReasons.size(); ++i) {
    state_->ends[i] = &state_->request_success_total.Add({{"finished_reason", kReasons[i]}});
  }
  state_->process_start_time_seconds.SetToCurrentTime();
  state_->build_info
      .Add({{"version", build.version}, {"device", build.device}, {"model", build.model}})
      .Set(1);
}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::OnFirstToken(double seconds) {
  state_->time_to_first_token_seconds.Observe(seconds);
  state_->generation_tokens_total.Increment();
}

void ServerMetrics::OnNextTokens(int64_t tokens, double seconds) {
  state_->inter_token_latency_seconds.Observe(seconds);
  state_->generation_tokens_total.Increment(static_cast<double>(tokens));
}

void ServerMetrics::OnRequestEnd(const RequestTimes& times) {
  State& s = *state_;
  s.ends[static_cast<size_t>(times.reason)]->Increment();
  s.e2e_request_latency_seconds.Observe(times.total_seconds);
  if (times.queued_seconds) {
    s.request_queue_time_seconds.Observe(*times.queued_seconds);
  }
  if (times.first_token_seconds && times.completion_tokens > 1) {
    s.time_per_output_token_seconds.Observe((times.total_seconds - *times.first_token_seconds) /
                                            static_cast<double>(times.completion_tokens - 1));
  }
  s.request_prompt_tokens.Observe(static_cast<double>(times.prompt_tokens));
  s.request_generation_tokens.Observe(static_cast<double>(times.completion_tokens));
}

void ServerMetrics::OnHttpAnswer(std::string_view path, int status) {
  state_->http_requests_total.Add({{"path", std::string(path)}, {"status", std::to_string(status)}})
      .Increment();
}

void ServerMetrics::SetEngine(const EngineGauges& engine) {
  State& s = *state_;
  const std::lock_guard lock(s.totals_mutex);
  const auto running = static_cast<double>(engine.running);
  const auto waiting = static_cast<double>(engine.waiting);
  s.num_requests_running.Set(running);
  s.num_running_reqs.Set(running);
  s.num_requests_waiting.Set(waiting);
  s.num_queue_reqs.Set(waiting);
  RaiseTo(s.num_preemptions_total, static_cast<double>(engine.retractions));

  RaiseTo(s.engine_steps_total, static_cast<double>(engine.steps));
  const StepSeconds& steps = engine.step_seconds;
  for (const auto& [phase, seconds] : {std::pair("plan", steps.plan),
                                       {"commit", steps.commit},
                                       {"execute", steps.execute},
                                       {"sample", steps.sample},
                                       {"publish", steps.publish}}) {
    RaiseTo(s.engine_step_seconds_total.Add({{"phase", phase}}), seconds);
  }

  for (const PoolUse& pool : engine.pools) {
    const auto used = static_cast<double>(pool.used);
    const auto total = static_cast<double>(pool.total);
    s.kv_cache_usage_perc.Add({{"pool", pool.name}}).Set(Share(used, total));
    s.cache_pages_used.Add({{"pool", pool.name}}).Set(used);
    s.cache_pages.Add({{"pool", pool.name}}).Set(total);
  }
  const auto used_tokens = static_cast<double>(engine.used_tokens);
  const auto max_tokens = static_cast<double>(engine.max_tokens);
  s.num_used_tokens.Set(used_tokens);
  s.max_total_num_tokens.Set(max_tokens);
  s.token_usage.Set(Share(used_tokens, max_tokens));

  const auto prompt = static_cast<double>(engine.prompt_tokens);
  const auto cached = static_cast<double>(engine.cached_tokens);
  RaiseTo(s.prompt_tokens_total, prompt);
  RaiseTo(s.prefix_cache_queries_total, prompt);
  RaiseTo(s.prefix_cache_hits_total, cached);
  s.cache_hit_rate.Set(Share(cached, prompt));
  const PrefixUse& prefix = engine.prefix;
  s.prefix_cache_pages.Add({{"tier", "device"}}).Set(static_cast<double>(prefix.device_pages));
  s.prefix_cache_pages.Add({{"tier", "host"}}).Set(static_cast<double>(prefix.host_pages));
  s.prefix_cache_pages.Add({{"tier", "disk"}}).Set(static_cast<double>(prefix.disk_pages));
  RaiseTo(s.prefix_cache_evictions_total, static_cast<double>(prefix.evictions));
  RaiseTo(s.prefix_cache_loads_total.Add({{"tier", "host"}}),
          static_cast<double>(prefix.from_host));
  RaiseTo(s.prefix_cache_loads_total.Add({{"tier", "disk"}}),
          static_cast<double>(prefix.from_disk));

  if (const double passed = engine.uptime_seconds - s.mark_seconds; passed >= 1) {
    const double tokens = s.generation_tokens_total.Value();
    s.gen_throughput.Set((tokens - s.mark_tokens) / passed);
    s.mark_seconds = engine.uptime_seconds;
    s.mark_tokens = tokens;
  }
}

void ServerMetrics::SetHttp(const HttpGauges& http) {
  State& s = *state_;
  const std::lock_guard lock(s.totals_mutex);
  s.http_connections.Set(static_cast<double>(http.connections));
  RaiseTo(s.http_connections_accepted_total, static_cast<double>(http.accepted));
  RaiseTo(s.http_connections_turned_away_total, static_cast<double>(http.turned_away));
}

std::string ServerMetrics::Text() const {
  std::vector<prometheus::MetricFamily> families = state_->registry.Collect();
  std::sort(families.begin(), families.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (prometheus::MetricFamily& family : families) {
    std::sort(family.metric.begin(), family.metric.end(),
              [](const auto& a, const auto& b) { return a.label < b.label; });
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace cachalot
