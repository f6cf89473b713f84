#include "metrics/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

namespace cachalot {
namespace {

using testing::IsSupersetOf;
using testing::UnorderedElementsAreArray;

const std::vector<std::string>& ListedNames() {
  static const std::vector<std::string> names = {
#define CACHALOT_METRIC(kind, name, help) "cachalot:" #name,
#define CACHALOT_FAMILY(kind, name, labels, help) "cachalot:" #name,
#define CACHALOT_HISTOGRAM(name, buckets, help) "cachalot:" #name,
#include "metrics/metrics.def"
#undef CACHALOT_METRIC
#undef CACHALOT_FAMILY
#undef CACHALOT_HISTOGRAM
  };
  return names;
}

// What a scrape makes of the text; a line that is not of the format fails the test.
struct Scrape {
  std::map<std::string, std::string> types;  // by name of the metric
  std::vector<std::string> names;            // as often as HELP names them
  std::map<std::string, double> samples;     // by "name{labels}", as it stands there

  double operator()(const std::string& series) const {
    const auto found = samples.find(series);
    EXPECT_NE(found, samples.end()) << series;
    return found == samples.end() ? NAN : found->second;
  }
  std::set<std::string> SampleNames() const {
    std::set<std::string> found;
    for (const auto& [series, value] : samples) {
      found.insert(series.substr(0, series.find('{')));
    }
    return found;
  }
};

Scrape Parse(const std::string& text) {
  static const std::regex kHelp("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)");
  static const std::regex kType("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)");
  static const std::regex kSample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)*\})? (\S+))re");
  Scrape scrape;
  std::istringstream lines(text);
  std::string metric;  // whose lines these are
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      metric = match[1];
      scrape.names.push_back(metric);
    } else if (std::regex_match(line, match, kType)) {
      EXPECT_EQ(match[1], metric);
      EXPECT_TRUE(scrape.types.emplace(match[1], match[2]).second) << line;
    } else if (std::regex_match(line, match, kSample)) {
      std::string name = match[1];
      if (scrape.types[metric] == "histogram") {
        name = std::regex_replace(name, std::regex("_(bucket|sum|count)$"), "");
      }
      EXPECT_EQ(name, metric) << line;
      EXPECT_TRUE(
          scrape.samples.emplace(match[1].str() + match[2].str(), std::stod(match[3])).second)
          << line;
    } else {
      ADD_FAILURE() << "no line of the format: " << line;
    }
  }
  return scrape;
}

EngineGauges SomeEngine() {
  EngineGauges engine;
  engine.uptime_seconds = 10;
  engine.running = 3;
  engine.waiting = 2;
  engine.pools = {{.name = "full", .used = 30, .total = 40},
                  {.name = "swa", .used = 1, .total = 8}};
  engine.used_tokens = 1024;
  engine.max_tokens = 4096;
  engine.prefix = {.device_pages = 7,
                   .host_pages = 11,
                   .disk_pages = 13,
                   .evictions = 17,
                   .from_host = 19,
                   .from_disk = 23};
  engine.steps = 100;
  engine.step_seconds = {.plan = 1, .commit = 2, .execute = 3, .sample = 4, .publish = 5};
  engine.retractions = 6;
  engine.prompt_tokens = 1000;
  engine.cached_tokens = 250;
  return engine;
}

// A server of which every metric has something to say.
std::unique_ptr<ServerMetrics> BusyServer() {
  auto metrics = std::make_unique<ServerMetrics>(
      BuildInfo{.version = "1.2.3", .device = "cpu", .model = "calf"});
  metrics->OnFirstToken(0.03);
  metrics->OnNextTokens(1, 0.02);
  metrics->OnRequestEnd({.reason = FinishedReason::kStop,
                         .queued_seconds = 0.01,
                         .first_token_seconds = 0.03,
                         .total_seconds = 0.05,
                         .prompt_tokens = 12,
                         .completion_tokens = 2});
  metrics->OnHttpAnswer("/v1/chat/completions", 200);
  metrics->SetEngine(SomeEngine());
  metrics->SetHttp({.connections = 4, .accepted = 9, .turned_away = 1});
  return metrics;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(CACHALOT_SOURCE_DIR "/" + path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> NamesIn(const std::string& text) {
  static const std::regex kName("cachalot:[a-z0-9_]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), kName), {}};
}

TEST(ServerMetrics, ExportsEveryMetricOnceWithHelpAndType) {
  const Scrape scrape = Parse(BusyServer()->Text());
  EXPECT_THAT(scrape.names, UnorderedElementsAreArray(ListedNames()));
  EXPECT_EQ(scrape.types.size(), ListedNames().size());
  for (const auto& [name, type] : scrape.types) {
    EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
  }
}

TEST(ServerMetrics, KnowsTheEngineAsItWasLastSet) {
  const auto metrics = BusyServer();
  Scrape scrape = Parse(metrics->Text());
  EXPECT_EQ(scrape("cachalot:num_requests_running"), 3);
  EXPECT_EQ(scrape("cachalot:num_running_reqs"), 3);
  EXPECT_EQ(scrape("cachalot:num_requests_waiting"), 2);
  EXPECT_EQ(scrape("cachalot:num_queue_reqs"), 2);
  EXPECT_EQ(scrape("cachalot:kv_cache_usage_perc{pool=\"full\"}"), 0.75);
  EXPECT_EQ(scrape("cachalot:cache_pages_used{pool=\"swa\"}"), 1);
  EXPECT_EQ(scrape("cachalot:cache_pages{pool=\"swa\"}"), 8);
  EXPECT_EQ(scrape("cachalot:token_usage"), 0.25);
  EXPECT_EQ(scrape("cachalot:cache_hit_rate"), 0.25);
  EXPECT_EQ(scrape("cachalot:prefix_cache_queries_total"), 1000);
  EXPECT_EQ(scrape("cachalot:prefix_cache_hits_total"), 250);
  EXPECT_EQ(scrape("cachalot:prefix_cache_pages{tier=\"disk\"}"), 13);
  EXPECT_EQ(scrape("cachalot:prefix_cache_loads_total{tier=\"host\"}"), 19);
  EXPECT_EQ(scrape("cachalot:engine_step_seconds_total{phase=\"publish\"}"), 5);
  EXPECT_EQ(scrape("cachalot:http_connections"), 4);
  EXPECT_EQ(scrape("cachalot:build_info{device=\"cpu\",model=\"calf\",version=\"1.2.3\"}"), 1);

  EngineGauges engine = SomeEngine();
  engine.running = 1;
  engine.prompt_tokens = 1010;
  metrics->SetEngine(engine);
  scrape = Parse(metrics->Text());
  EXPECT_EQ(scrape("cachalot:num_requests_running"), 1);
  EXPECT_EQ(scrape("cachalot:prompt_tokens_total"), 1010);
}

TEST(ServerMetrics, NeverLetsACounterFall) {
  const auto metrics = BusyServer();
  EngineGauges older = SomeEngine();
  older.steps = 90;
  older.step_seconds.plan = 0.5;
  metrics->SetEngine(older);
  metrics->SetHttp({.connections = 0, .accepted = 5, .turned_away = 0});
  const Scrape scrape = Parse(metrics->Text());
  EXPECT_EQ(scrape("cachalot:engine_steps_total"), 100);
  EXPECT_EQ(scrape("cachalot:engine_step_seconds_total{phase=\"plan\"}"), 1);
  EXPECT_EQ(scrape("cachalot:http_connections_accepted_total"), 9);
  EXPECT_EQ(scrape("cachalot:http_connections"), 0);
}

TEST(ServerMetrics, CountsWhatARequestTook) {
  ServerMetrics metrics(BuildInfo{});
  metrics.OnFirstToken(0.5);
  metrics.OnNextTokens(3, 0.25);
  metrics.OnNextTokens(1, 0.25);
  metrics.OnRequestEnd({.reason = FinishedReason::kLength,
                        .queued_seconds = 0.125,
                        .first_token_seconds = 0.5,
                        .total_seconds = 1.5,
                        .prompt_tokens = 700,
                        .completion_tokens = 5});
  metrics.OnRequestEnd({.reason = FinishedReason::kAbort, .total_seconds = 2});
  const Scrape scrape = Parse(metrics.Text());
  EXPECT_EQ(scrape("cachalot:generation_tokens_total"), 5);
  EXPECT_EQ(scrape("cachalot:time_to_first_token_seconds_sum"), 0.5);
  EXPECT_EQ(scrape("cachalot:inter_token_latency_seconds_count"), 2);
  EXPECT_EQ(scrape("cachalot:time_per_output_token_seconds_count"), 1);
  EXPECT_EQ(scrape("cachalot:time_per_output_token_seconds_sum"), 0.25);
  EXPECT_EQ(scrape("cachalot:request_queue_time_seconds_count"), 1);
  EXPECT_EQ(scrape("cachalot:e2e_request_latency_seconds_sum"), 3.5);
  EXPECT_EQ(scrape("cachalot:request_prompt_tokens_bucket{le=\"500\"}"), 1);
  EXPECT_EQ(scrape("cachalot:request_prompt_tokens_bucket{le=\"1000\"}"), 2);
  EXPECT_EQ(scrape("cachalot:request_success_total{finished_reason=\"length\"}"), 1);
  EXPECT_EQ(scrape("cachalot:request_success_total{finished_reason=\"abort\"}"), 1);
  EXPECT_EQ(scrape("cachalot:request_success_total{finished_reason=\"stop\"}"), 0);
}

TEST(ServerMetrics, HasBucketsThatAddUp) {
  ServerMetrics metrics(BuildInfo{});
  for (const double seconds : {0.0005, 0.001, 0.3, 5000.0}) {
    metrics.OnFirstToken(seconds);
  }
  const Scrape scrape = Parse(metrics.Text());
  const std::string name = "cachalot:time_to_first_token_seconds";
  EXPECT_EQ(scrape(name + "_bucket{le=\"0.001\"}"), 2) << "a bound belongs to its bucket";
  EXPECT_EQ(scrape(name + "_bucket{le=\"0.25\"}"), 2);
  EXPECT_EQ(scrape(name + "_bucket{le=\"0.5\"}"), 3);
  EXPECT_EQ(scrape(name + "_bucket{le=\"2560\"}"), 3);
  EXPECT_EQ(scrape(name + "_bucket{le=\"+Inf\"}"), 4);
  EXPECT_EQ(scrape(name + "_count"), 4);
}

TEST(ServerMetrics, TellsTheRateOfTokensBetweenScrapes) {
  ServerMetrics metrics(BuildInfo{});
  EngineGauges engine;
  const auto rate_at = [&](double seconds) {
    engine.uptime_seconds = seconds;
    metrics.SetEngine(engine);
    return Parse(metrics.Text())("cachalot:gen_throughput");
  };
  metrics.OnNextTokens(50, 0.1);
  EXPECT_EQ(rate_at(10), 5);
  metrics.OnNextTokens(30, 0.1);
  EXPECT_EQ(rate_at(10.5), 5) << "too soon to tell";
  EXPECT_EQ(rate_at(12), 15);
  EXPECT_EQ(rate_at(13), 0);
}

TEST(ServerMetrics, KeepsWhatLabelsSayInItsPlace) {
  ServerMetrics metrics(BuildInfo{.version = "1", .device = "cpu", .model = "a\"b\\c\nd"});
  metrics.OnHttpAnswer("/v1/models", 200);
  metrics.OnHttpAnswer("/v1/models", 200);
  metrics.OnHttpAnswer("/v1/models", 404);
  const Scrape scrape = Parse(metrics.Text());
  EXPECT_EQ(scrape("cachalot:http_requests_total{path=\"/v1/models\",status=\"200\"}"), 2);
  EXPECT_EQ(scrape("cachalot:http_requests_total{path=\"/v1/models\",status=\"404\"}"), 1);
  EXPECT_EQ(scrape(R"(cachalot:build_info{device="cpu",model="a\"b\\c\nd",version="1"})"), 1);
}

TEST(ServerMetrics, LosesNothingOfWhatManyThreadsTell) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  ServerMetrics metrics(BuildInfo{});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 1; i <= kRounds; ++i) {
        metrics.OnFirstToken(0.5);
        metrics.OnNextTokens(2, 0.25);
        metrics.OnRequestEnd({.total_seconds = 1, .completion_tokens = 3});
        metrics.OnHttpAnswer(t % 2 == 0 ? "/even" : "/odd", 200);
        EngineGauges engine;
        engine.steps = i;
        engine.step_seconds.execute = i * 0.5;
        metrics.SetEngine(engine);
        if (i % 50 == 0) {
          EXPECT_FALSE(metrics.Text().empty());
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const Scrape scrape = Parse(metrics.Text());
  constexpr double kAll = kThreads * kRounds;
  EXPECT_EQ(scrape("cachalot:generation_tokens_total"), 3 * kAll);
  EXPECT_EQ(scrape("cachalot:time_to_first_token_seconds_sum"), 0.5 * kAll);
  EXPECT_EQ(scrape("cachalot:request_success_total{finished_reason=\"stop\"}"), kAll);
  EXPECT_EQ(scrape("cachalot:http_requests_total{path=\"/even\",status=\"200\"}"), kAll / 2);
  EXPECT_EQ(scrape("cachalot:engine_steps_total"), kRounds) << "a total, however often it is set";
  EXPECT_EQ(scrape("cachalot:engine_step_seconds_total{phase=\"execute\"}"), kRounds * 0.5);
}

TEST(Dashboard, ShowsOnlyMetricsThatAreExported) {
  const std::string text = ReadText("docs/grafana/cachalot.json");
  EXPECT_TRUE(nlohmann::json::accept(text));
  const std::set<std::string> shown = NamesIn(text);
  EXPECT_GT(shown.size(), 10U);
  EXPECT_THAT(Parse(BusyServer()->Text()).SampleNames(), IsSupersetOf(shown));
}

TEST(MetricsTable, HasEveryMetricAndNoOther) {
  EXPECT_THAT(NamesIn(ReadText("docs/metrics.md")), UnorderedElementsAreArray(ListedNames()));
}

}  // namespace
}  // namespace cachalot
