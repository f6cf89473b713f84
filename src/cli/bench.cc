// `cachalot bench`: what the machine can do, and what the engine makes of it.
#include <cstdio>

#include "cli/bench_throughput.h"
#include "cli/commands.h"
#include "io/json.h"

namespace cachalot {
namespace {

struct BenchFlags {
  ModelFlags model;
  ThroughputOptions throughput;
  bool json = false;
};

Status RunLimits(const BenchFlags& flags) {
  CACHALOT_ASSIGN_OR_RETURN(const cpu::Isa isa, cpu::ChooseIsa({}));
  if (isa < cpu::Isa::kAvx2) {
    return MakeError(StatusCode::kUnsupported, "bench needs AVX2: the limits are measured with it");
  }
  OrderedJson list = OrderedJson::array();
  for (const int64_t threads : flags.throughput.threads) {
    ThreadPool pool(static_cast<int>(threads));
    const cpu::MachineLimits limits = cpu::MeasureLimits(pool, isa);
    list.push_back({{"threads", threads},
                    {"isa", cpu::NameOf(isa)},
                    {"stream_bytes_per_second", limits.stream_bytes_per_second},
                    {"fma_flops_per_second", limits.fma_flops_per_second}});
    if (!flags.json) {
      std::printf("%3lld threads  %s  stream read %6.1f GB/s  float32 fma %7.1f GFLOP/s\n",
                  static_cast<long long>(threads), cpu::NameOf(isa),
                  limits.stream_bytes_per_second / 1e9, limits.fma_flops_per_second / 1e9);
    }
  }
  if (flags.json) {
    std::printf("%s\n", DumpJson(list, 2).c_str());
  }
  return {};
}

Status RunThroughputCommand(const BenchFlags& flags) {
  OrderedJson list = OrderedJson::array();
  if (!flags.json) {
    std::printf(
        "| test    | threads |  depth | batch | tokens/s (median) | limit  | of the limit |\n");
    std::printf(
        "| ------- | ------: | -----: | ----: | ----------------: | ------ | -----------: |\n");
  }
  CACHALOT_RETURN_IF_ERROR(
      RunThroughput(flags.model, flags.throughput, [&](const ThroughputResult& result) {
        if (flags.json) {
          list.push_back({{"test", result.test},
                          {"threads", result.threads},
                          {"depth", result.depth},
                          {"batch", result.batch},
                          {"tokens_per_second", result.tokens_per_second},
                          {"limit", result.limit},
                          {"limit_fraction", result.limit_fraction()}});
          return;
        }
        std::printf("| %-7s | %7lld | %6lld | %5lld | %17.1f | %-6s | %10.0f %% |\n",
                    result.test.c_str(), static_cast<long long>(result.threads),
                    static_cast<long long>(result.depth), static_cast<long long>(result.batch),
                    result.median(), result.limit.c_str(), 100 * result.limit_fraction());
        std::fflush(stdout);
      }));
  if (flags.json) {
    std::printf("%s\n", DumpJson(list, 2).c_str());
  }
  return {};
}

}  // namespace

void AddBenchCommands(CLI::App& app, Action& action) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the machine and the engine on it");
  bench->require_subcommand(1);
  auto flags = std::make_shared<BenchFlags>();
  ThroughputOptions& options = flags->throughput;
  options = {{512}, {32}, {0}, {1}, {AvailableCores()}, 5};
  const auto add_list = [](CLI::App* command, const char* name, std::vector<int64_t>& list,
                           const char* about, int64_t least, int64_t most = int64_t{1} << 24) {
    command->add_option(name, list, about)
        ->delimiter(',')
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  const auto add_threads = [&](CLI::App* command) {
    command->add_option("-t,--threads", options.threads, "threads, a list")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command->add_flag("--json", flags->json, "as JSON");
  };

  CLI::App* limits = bench->add_subcommand("limits", "Stream read and multiply-add peaks");
  add_threads(limits);
  limits->callback([flags, &action] { action = [flags] { return RunLimits(*flags); }; });

  CLI::App* throughput = bench->add_subcommand(
      "throughput",
      "Tokens per second of prefill and decode, and the fraction of the limit that binds");
  throughput->add_option("-m,--model", flags->model.folder, "checkpoint folder")->required();
  throughput->add_option("--isa", flags->model.isa, "avx2 or avx512");
  add_threads(throughput);
  add_list(throughput, "-p,--n-prompt", options.prompts, "tokens to prefill, a list", 1);
  add_list(throughput, "-n,--n-gen", options.generates, "tokens to decode, a list", 1);
  add_list(throughput, "-d,--n-depth", options.depths, "tokens before, a list", 0);
  add_list(throughput, "-b,--batch", options.batches, "requests at once, a list", 1,
           kThroughputStepTokens);
  throughput->add_option("-r,--repetitions", options.repetitions, "of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  throughput->callback(
      [flags, &action] { action = [flags] { return RunThroughputCommand(*flags); }; });
}

}  // namespace cachalot
