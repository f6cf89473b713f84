#include "server/engine_info.h"

#include <chrono>

#include "cache/ids.h"

namespace cachalot {
namespace {

double SecondsOf(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

OrderedJson PrefixInfo(const PrefixStats& prefix) {
  return {{"device_pages", prefix.device_pages}, {"device_windows", prefix.device_windows},
          {"host_pages", prefix.host_pages},     {"host_windows", prefix.host_windows},
          {"disk_pages", prefix.disk_pages},     {"disk_windows", prefix.disk_windows},
          {"evictions", prefix.evictions},       {"from_host", prefix.from_host},
          {"from_disk", prefix.from_disk}};
}

}  // namespace

EngineGauges GaugesOf(const Engine& engine) {
  const EngineStats stats = engine.stats();
  EngineGauges gauges;
  gauges.uptime_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  gauges.running = stats.scheduler.running;
  gauges.waiting = stats.scheduler.waiting;
  for (const CachePoolUse& pool : stats.pools) {
    gauges.pools.push_back({pool.name, pool.used, pool.pages});
  }
  if (!stats.pools.empty()) {  // the first has a page for each page of tokens
    gauges.used_tokens = stats.pools.front().used * kPageTokens;
    gauges.max_tokens = stats.pools.front().pages * kPageTokens;
  }
  gauges.prefix = {.device_pages = stats.prefix.device_pages,
                   .host_pages = stats.prefix.host_pages,
                   .disk_pages = stats.prefix.disk_pages,
                   .evictions = stats.prefix.evictions,
                   .from_host = stats.prefix.from_host,
                   .from_disk = stats.prefix.from_disk};
  gauges.steps = stats.times.steps;
  gauges.step_seconds = {.plan = SecondsOf(stats.times.plan),
                         .commit = SecondsOf(stats.times.commit),
                         .execute = SecondsOf(stats.times.execute),
                         .sample = SecondsOf(stats.times.sample),
                         .publish = SecondsOf(stats.times.publish)};
  gauges.retractions = stats.scheduler.retractions;
  gauges.prompt_tokens = stats.scheduler.prompt_tokens;
  gauges.cached_tokens = stats.scheduler.cached_tokens;
  return gauges;
}

OrderedJson EngineInfo(const Engine& engine) {
  const EngineStats stats = engine.stats();
  OrderedJson pools = OrderedJson::array();
  for (const CachePoolUse& pool : stats.pools) {
    pools.push_back({{"name", pool.name}, {"used", pool.used}, {"total", pool.pages}});
  }
  return {{"requests",
           {{"running", stats.scheduler.running},
            {"waiting", stats.scheduler.waiting},
            {"retractions", stats.scheduler.retractions}}},
          {"cache",
           {{"bytes", engine.plan().bytes()},
            {"page_tokens", kPageTokens},
            {"pools", std::move(pools)},
            {"prefix", PrefixInfo(stats.prefix)},
            {"prompt_tokens", stats.scheduler.prompt_tokens},
            {"cached_tokens", stats.scheduler.cached_tokens}}},
          {"steps",
           {{"count", stats.times.steps},
            {"graph_replays", stats.graph.replays},
            {"execute_seconds", SecondsOf(stats.times.execute)},
            {"host_seconds", SecondsOf(stats.times.plan + stats.times.commit + stats.times.sample +
                                       stats.times.publish)}}}};
}

}  // namespace cachalot
