#include "cli/bench_serving.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/engine_flags.h"
#include "cli/engine_report.h"
#include "cli/progress.h"
#include "cli/send_load.h"

namespace cachalot {
namespace {

struct ServingFlags {
  ModelFlags model;
  EngineFlags engine;
  LoadOptions load;
  std::string rate = "inf";
  std::string input = "1024";
  std::string output = "128";
  std::string arrivals = "poisson";
  int64_t max_concurrency = 0;
  int64_t warmup = 0;
  std::vector<std::string> goodput;
  bool json = false;
};

Result<LoadOptions> LoadOptionsOf(const ServingFlags& flags, const ModelConfig& config) {
  LoadOptions options = flags.load;
  options.vocab_size = config.vocab_size;
  options.process =
      flags.arrivals == "constant" ? ArrivalProcess::kConstant : ArrivalProcess::kPoisson;
  CACHALOT_ASSIGN_OR_RETURN(options.rate, ParseRequestRate(flags.rate));
  CACHALOT_ASSIGN_OR_RETURN(options.input,
                            ParseLengthDistribution(flags.input, "--random-input-len"));
  CACHALOT_ASSIGN_OR_RETURN(options.output,
                            ParseLengthDistribution(flags.output, "--random-output-len"));
  CACHALOT_RETURN_IF_ERROR(CheckLoadOptions(options));
  return options;
}

// Tokens of the longest request, its answer included.
int64_t LongestOf(const std::vector<LoadRequest>& load) {
  int64_t longest = 0;
  for (const LoadRequest& request : load) {
    longest =
        std::max(longest, static_cast<int64_t>(request.prompt.size()) + request.output_tokens);
  }
  return longest;
}

Status CheckFits(const Engine& engine, int64_t longest) {
  const int64_t cache_tokens = engine.plan().geometry.full_pages * kPageTokens;
  const int64_t most = std::min(engine.max_context(), cache_tokens);
  if (longest > most) {
    return MakeError(StatusCode::kInvalidArgument,
                     "the longest request has {} tokens with its answer, but the {} holds {}",
                     longest, most == cache_tokens ? "cache" : "context", most);
  }
  return {};
}

// Requests of other words than the load's, one after another.
void WarmUp(Engine& engine, LoadOptions options, int64_t count) {
  options.num_requests = count;
  options.rate = HUGE_VAL;
  options.prefix_share = 0;
  options.seed = ~options.seed;
  SendLoad(engine, MakeLoad(options), 1, [](int64_t, int64_t) {});
  engine.Drain();
}

OrderedJson SettingsOf(const ServingFlags& flags) {
  return {{"model_id", flags.model.folder},
          {"num_prompts", flags.load.num_requests},
          {"request_rate", flags.rate},
          {"arrivals", flags.arrivals},
          {"random_input_len", flags.input},
          {"random_output_len", flags.output},
          {"prefix_share", flags.load.prefix_share},
          {"num_prefixes", flags.load.num_prefixes},
          {"prefix_len", flags.load.prefix_tokens},
          {"seed", flags.load.seed},
          {"max_concurrency", flags.max_concurrency},
          {"max_running", flags.engine.max_running},
          {"warmup", flags.warmup}};
}

void Print(const ServingFlags& flags, const ServingReport& serving, const EngineReport& engine) {
  if (!flags.json) {
    std::printf("%s%s", FormatServingReport(serving).c_str(), FormatEngineReport(engine).c_str());
    return;
  }
  OrderedJson json = SettingsOf(flags);
  json.update(ToJson(serving));
  json["engine"] = ToJson(engine);
  std::printf("%s\n", DumpJson(json, 2).c_str());
}

Status RunBenchServing(const ServingFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const GoodputLimits limits, ParseGoodputLimits(flags.goodput));
  CACHALOT_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model.folder));
  CACHALOT_ASSIGN_OR_RETURN(const LoadOptions options, LoadOptionsOf(flags, config));
  std::vector<LoadRequest> load = MakeLoad(options);
  const int64_t longest = LongestOf(load);
  EngineFlags engine_flags = flags.engine;
  if (engine_flags.context == 0 && longest > EngineFlags::kDefaultContext) {
    engine_flags.context = longest;
  }
  CACHALOT_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(flags.model));
  CACHALOT_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                            OpenEngine(*device, flags.model, engine_flags));
  CACHALOT_RETURN_IF_ERROR(CheckFits(*engine, longest));
  WarmUp(*engine, options, flags.warmup);

  const EngineStats before = engine->stats();
  ProgressBar bar("serving", "requests");
  const std::vector<RequestRecord> records =
      SendLoad(*engine, std::move(load), flags.max_concurrency,
               [&](int64_t ended, int64_t total) { bar.Show(ended, total); });
  bar.Clear();
  engine->Drain();
  const EngineStats after = engine->stats();
  const std::string leaks = engine->LeakReport();
  CACHALOT_CHECK(leaks.empty(), "pages were lost: {}", leaks);
  Print(flags, MakeServingReport(records, limits),
        MakeEngineReport(records, before, after, engine->plan().bytes()));
  return {};
}

void AddLoadFlags(CLI::App& command, ServingFlags& flags) {
  LoadOptions& load = flags.load;
  command.add_option("--num-prompts", load.num_requests, "requests")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  command
      .add_option("--request-rate", flags.rate,
                  "requests a second, sent whether or not earlier ones are answered; inf: at once")
      ->capture_default_str();
  command.add_option("--arrivals", flags.arrivals, "poisson, or constant: at equal distances")
      ->check(CLI::IsMember({"poisson", "constant"}))
      ->capture_default_str();
  command
      .add_option("--random-input-len", flags.input,
                  "tokens of a prompt: 512, 128-1024 or lognormal:MEAN:VARIATION")
      ->capture_default_str();
  command.add_option("--random-output-len", flags.output, "tokens of an answer, likewise")
      ->capture_default_str();
  command
      .add_option("--prefix-share", load.prefix_share,
                  "of every prompt, 0 to 1, that is the beginning of a shared text")
      ->capture_default_str();
  command.add_option("--num-prefixes", load.num_prefixes, "shared texts to choose from")
      ->capture_default_str();
  command.add_option("--prefix-len", load.prefix_tokens, "tokens of a shared text at most")
      ->capture_default_str();
  command.add_option("--seed", load.seed, "same seed, same requests")->capture_default_str();
  command
      .add_option(
          "--max-concurrency", flags.max_concurrency,
          "requests that are sent and not answered; further ones are held back; 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--warmup", flags.warmup, "requests before, which do not count")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
}

}  // namespace

void AddBenchServing(CLI::App& bench, Action& action) {
  CLI::App* command = bench.add_subcommand(
      "serving", "Throughput and latencies of many requests, as servers are compared by");
  auto flags = std::make_shared<ServingFlags>();
  flags->model.AddTo(*command);
  AddLoadFlags(*command, *flags);
  flags->engine.AddTo(*command);
  flags->engine.AddQueueTo(*command);
  command->add_option("--goodput", flags->goodput,
                      "also count requests within limits in ms: ttft:500, tpot:50 or e2el:10000");
  command->add_flag("--json", flags->json, "as JSON");
  command->callback([flags, &action] { action = [flags] { return RunBenchServing(*flags); }; });
}

}  // namespace cachalot
